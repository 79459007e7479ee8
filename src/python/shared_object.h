// A Python object that C++ threads share.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <utility>

#include "core/completion.h"
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

// Makes the operation an owner of `object`, whose memory it reads or writes, until it is settled.
// Called in the call of Python's that posts the operation: a signal handler may raise as soon as
// that call returns, and then Python keeps neither the completion nor the object. Needs the GIL.
inline Completion keep(Completion completion, nanobind::handle object) {
  if (!completion.settled()) {
    completion.on_settled([kept = SharedObject(nanobind::borrow(object))](const Status&) {});
  }
  return completion;
}

// What the calls for plain arguments return: None if these are not plain and nothing was posted,
// True if the operation has succeeded, else its Completion.
inline nanobind::object outcome_of(Completion posted) {
  if (posted.state() == nullptr && posted.wait().ok()) return nanobind::bool_(true);
  return nanobind::cast(std::move(posted));
}

}  // namespace farwrite::python
