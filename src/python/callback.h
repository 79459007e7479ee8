// Python callables that C++ threads call.
#pragma once

#include <nanobind/nanobind.h>

#include <utility>

#include "python/gil.h"
#include "python/shared_object.h"

namespace farwrite::python {

// Shares one Python callable among copies, as std::function wants it. Any thread may call, copy and
// destroy it, without the GIL. What the callable raises goes to sys.unraisablehook.
class Callback {
 public:
  // Needs the GIL.
  explicit Callback(nanobind::callable function) : function_(std::move(function)) {}

  // Calls function(*make_arguments()) under the GIL, or does nothing once Python is ending.
  template <typename MakeArguments>
  void operator()(MakeArguments&& make_arguments) const {
    const GilHold gil;
    if (!gil.held()) return;
    try {
      const nanobind::object arguments = make_arguments();
      PyObject* const result =
          outlive_python([function = function_.get(), given = arguments.ptr()] {
            return PyObject_CallObject(function, given);
          });
      if (result == nullptr) throw nanobind::python_error();
      outlive_python([=] { Py_DECREF(result); });
    } catch (nanobind::python_error& error) {
      error.restore();
      outlive_python([function = function_.get()] { PyErr_WriteUnraisable(function); });
    }
  }

 private:
  SharedObject function_;
};

}  // namespace farwrite::python
