// A Python object that C++ threads share.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>

#include "python/gil.h"

namespace farwrite::python {

// Any thread may copy and destroy it, without the GIL. The last copy takes the GIL to let go of the
// object.
class SharedObject {
 public:
  // Needs the GIL.
  explicit SharedObject(nanobind::object object)
      : object_(object.release().ptr(), &SharedObject::drop) {}

  PyObject* get() const { return object_.get(); }

 private:
  static void drop(PyObject* object) {
    const GilHold gil;
    // Once Python is ending, it takes the object along.
    if (gil.held()) outlive_python([=] { Py_DECREF(object); });
  }

  std::shared_ptr<PyObject> object_;
};

}  // namespace farwrite::python
