// Calls from Python into C++: releases the GIL, and raises a Status as an exception.
#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <utility>

#include "farwrite/status.h"

namespace farwrite::bench {

// Runs `call` without the GIL. `call` must not touch a Python object.
template <typename Call>
auto without_gil(Call&& call) {
  const nanobind::gil_scoped_release released;
  return std::forward<Call>(call)();
}

// Raises the exception class that farwrite.errors has for the status's code, with the status's
// message. The message may quote bytes of the peer that are not UTF-8; they are escaped.
[[noreturn]] inline void raise(const Status& status) {
  const std::string& message = status.message();
  const nanobind::object sentence =
      nanobind::bytes(message.data(), message.size()).attr("decode")("utf-8", "backslashreplace");
  const nanobind::object error =
      nanobind::module_::import_("farwrite.errors")
          .attr("from_status")(static_cast<int>(status.code()), sentence);
  PyErr_SetObject(error.type().ptr(), error.ptr());
  throw nanobind::python_error();
}

inline void raise_if_error(const Status& status) {
  if (!status.ok()) raise(status);
}

template <typename T>
T value_or_raise(Result<T> result) {
  if (!result.ok()) raise(result.status());
  return std::move(result).value();
}

}  // namespace farwrite::bench
