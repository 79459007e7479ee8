// From Status to Python exceptions. Only the bindings throw; the library below never does.
#pragma once

#include <nanobind/nanobind.h>

#include <utility>

#include "farwrite/status.h"

namespace farwrite::python {

// The status's sentence. Bytes of a peer's may stand in it that are no text: they are escaped.
nanobind::str sentence_of(const Status& status);

// What makes the exceptions, borrowed. The first call imports it.
PyObject* from_status();

// As raise(), for code that must not throw it: leaves the exception set.
void set_error(const Status& status);

// Raises the exception class that farwrite.errors has for the code, with the Status's sentence.
// Needs the GIL.
[[noreturn]] void raise(const Status& status);

inline void raise_if_error(const Status& status) {
  if (!status.ok()) raise(status);
}

template <typename T>
T value_or_raise(Result<T> result) {
  if (!result.ok()) raise(result.status());
  return std::move(result).value();
}

}  // namespace farwrite::python
