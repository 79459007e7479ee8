#include "python/errors.h"

#include <nanobind/nanobind.h>

#include <string>

#include "python/gil.h"

namespace farwrite::python {

namespace nb = nanobind;

nb::str sentence_of(const Status& status) {
  const std::string& sentence = status.message();
  PyObject* const text = PyUnicode_DecodeUTF8(
      sentence.data(), static_cast<Py_ssize_t>(sentence.size()), "backslashreplace");
  if (text == nullptr) throw nb::python_error();
  return nb::steal<nb::str>(text);
}

PyObject* from_status() {
  // Never let go of: finalizers that call us while the interpreter ends can import nothing.
  static PyObject* const function =
      nb::object(nb::module_::import_("farwrite.errors").attr("from_status")).release().ptr();
  return function;
}

void set_error(const Status& status) {
  const nb::str sentence = sentence_of(status);
  PyObject* const make = from_status();
  PyObject* const error = outlive_python([&] {
    return PyObject_CallFunction(make, "iO", static_cast<int>(status.code()), sentence.ptr());
  });
  if (error == nullptr) return;  // why, is set
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error)), error);
  Py_DECREF(error);
}

[[noreturn]] void raise(const Status& status) {
  set_error(status);
  throw nb::python_error();
}

const char* c_text(const char* operation, const char* what, const std::string& text) {
  if (text.find('\0') != std::string::npos) {
    raise(Status::error(StatusCode::kInvalidArgument, {operation},
                        std::string(what) + " holds a zero byte", "use another text"));
  }
  return text.c_str();
}

}  // namespace farwrite::python
