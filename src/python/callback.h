// Python callables that C++ threads call.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <utility>

#include "python/gil.h"

namespace farwrite::python {

// Shares one Python callable among copies, as std::function wants it. Any thread may call, copy and
// destroy it, without the GIL. What the callable raises goes to sys.unraisablehook.
class Callback {
 public:
  // Needs the GIL.
  explicit Callback(nanobind::callable function)
      : function_(function.release().ptr(), &Callback::drop) {}

  // Calls function(*make_arguments()) under the GIL, or does nothing once Python is ending.
  template <typename MakeArguments>
  void operator()(MakeArguments&& make_arguments) const {
    const GilHold gil;
    if (!gil.held()) return;
    try {
      nanobind::borrow<nanobind::callable>(function_.get())(*make_arguments());
    } catch (nanobind::python_error& error) {
      error.restore();
      PyErr_WriteUnraisable(function_.get());
    }
  }

 private:
  static void drop(PyObject* function) {
    const GilHold gil;
    if (gil.held()) Py_DECREF(function);  // else Python is ending, and takes it along
  }

  std::shared_ptr<PyObject> function_;
};

}  // namespace farwrite::python
