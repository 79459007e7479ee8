// Python objects and their memory that C++ threads share.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <utility>

#include "farwrite/completion.h"
#include "python/errors.h"
#include "python/gil.h"
#include "python/held.h"

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

// The memory of a PythonBuffer: an owner for what may still read or write it after the call. As
// SharedObject for threads.
class SharedBuffer {
 public:
  // Needs the GIL.
  explicit SharedBuffer(PythonBuffer& buffer) : view_(new Py_buffer(buffer.take()), &drop) {}

 private:
  static void drop(Py_buffer* view) {
    const std::unique_ptr<Py_buffer> mine(view);
    const GilHold gil;
    if (gil.held()) release_buffer(*mine);
  }

  std::shared_ptr<Py_buffer> view_;
};

// Makes the operation an owner of the buffer, which it reads or writes, until it is settled.
// Called in the call of Python's that posts the operation: a signal handler may raise as soon as
// that call returns, and then Python keeps neither the completion nor the object. In any thread.
inline Completion keep(Completion completion, const SharedBuffer& buffer) {
  if (!completion.settled()) completion.on_settled([buffer](const Status&) {});
  return completion;
}

// The same. Needs the GIL.
inline Completion keep(Completion completion, PythonBuffer& buffer) {
  return completion.settled() ? completion : keep(std::move(completion), SharedBuffer(buffer));
}

// What a call of the C ABI that posts an operation returned and handed out. Both are null for an
// operation that has succeeded in the call, as most do over shm.
struct PostOutcome {
  fw_status* status = nullptr;
  fw_completion* completion = nullptr;
};

// Takes both over. Raises InvalidArgument and PermissionDenied, as the package does for the
// arguments that it checks itself; what else failed is the completion's to raise. Needs the GIL.
inline Completion completion_of(PostOutcome posted) {
  const auto code = static_cast<StatusCode>(fw_status_code(posted.status));
  if (code == StatusCode::kInvalidArgument || code == StatusCode::kPermissionDenied) [[unlikely]] {
    raise(taken(posted.status));
  }
  return Completion::adopt(posted.status, posted.completion);
}

// The same; see keep().
inline Completion completion_of(PostOutcome posted, PythonBuffer& buffer) {
  return keep(completion_of(posted), buffer);
}

// What the calls for plain arguments return: None if these are not plain and nothing was posted,
// True if the operation has succeeded, else its Completion. Takes both over; see keep().
inline nanobind::object outcome_of(PostOutcome posted, PythonBuffer& buffer) {
  if (posted.status == nullptr && posted.completion == nullptr) return nanobind::bool_(true);
  return nanobind::cast(completion_of(posted, buffer));
}

}  // namespace farwrite::python
