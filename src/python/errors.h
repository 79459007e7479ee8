// From Status to Python exceptions. Only the bindings throw, but where a call of the C ABI gets no
// memory: std::bad_alloc of the library's standard library comes through (module.cc).
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <string>
#include <utility>

#include "farwrite/c_status.h"
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

// Takes a status of the C ABI over.
inline Status taken(fw_status* status) {
  if (status == nullptr) return Status();
  const std::unique_ptr<fw_status, void (*)(fw_status*)> owned(status, fw_status_free);
  return Status(static_cast<StatusCode>(fw_status_code(status)), fw_status_message(status));
}

// The text for the C ABI, which ends a text at its first zero byte: raises InvalidArgument for a
// text that has one. Valid as long as `text`.
const char* c_text(const char* operation, const char* what, const std::string& text);

template <typename T>
T value_or_raise(Result<T> result) {
  if (!result.ok()) raise(result.status());
  return std::move(result).value();
}

}  // namespace farwrite::python
