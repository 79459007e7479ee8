// What the bindings need to hand C++ handles and memory to Python.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <exception>
#include <optional>
#include <utility>

#include "farwrite/bytes.h"
#include "farwrite/status.h"
#include "python/cuda_bytes.h"
#include "python/forks.h"
#include "python/gil.h"

namespace farwrite::python {

// Thrown, with or without the GIL, when a forked child uses what is its parent's. Python gets
// farwrite.Forked (module.cc).
class ForkedUse : public std::exception {
 public:
  explicit ForkedUse(Status status) : status_(std::move(status)) {}
  const Status& status() const { return status_; }

 private:
  Status status_;
};

[[noreturn]] void throw_forked_use();

// A handle whose end may block: closing waits for the peer and for handlers that need the GIL, so
// the last one is let go of without it. In a forked child every use throws ForkedUse.
template <typename Handle>
class Held {
 public:
  explicit Held(Handle handle) : handle_(std::move(handle)) {}
  ~Held() {
    const nanobind::error_scope keep_error;  // a destructor may run while an exception is raised
    const GilRelease released;
    handle_ = Handle();
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

  Handle& operator*() { return *operator->(); }
  Handle* operator->() {
    check();
    return &handle_;
  }
  const Handle& operator*() const { return *operator->(); }
  const Handle* operator->() const {
    check();
    return &handle_;
  }
  // For what needs no lock and no thread: a forked child may read that.
  const Handle& facts() const { return handle_; }

 private:
  void check() const {
    if (!mark_.in_forked_child()) [[likely]] {
      return;
    }
    throw_forked_use();
  }

  Handle handle_;
  const ForkMark mark_;
};

using BytesArray = nanobind::ndarray<nanobind::numpy, std::uint8_t, nanobind::ndim<1>>;
using ReadOnlyBytesArray =
    nanobind::ndarray<nanobind::numpy, const std::uint8_t, nanobind::ndim<1>>;

// A NumPy view of `bytes`, without a copy, that keeps `handle` alive.
template <typename Array, typename Handle, typename Byte>
Array view_bytes(Byte* data, std::size_t size, Handle handle) {
  nanobind::capsule owner(new Held<Handle>(std::move(handle)),
                          [](void* held) noexcept { delete static_cast<Held<Handle>*>(held); });
  return Array(data, {size}, owner);
}

// Without the GIL, bytearray and memoryview do not guard their counts of buffers, so that one
// thread at a time takes or gives back a buffer of one of them. NumPy (2.4, as seen) holds the lock
// of an array itself. Taken twice by one thread, that lock costs 30 us.
class ExporterGuard {
 public:
  explicit ExporterGuard([[maybe_unused]] nanobind::handle exporter) {
#ifdef Py_GIL_DISABLED
    PyObject* const object = exporter.ptr();
    if (PyByteArray_Check(object) || PyMemoryView_Check(object)) alone_.emplace(exporter);
#endif
  }

 private:
#ifdef Py_GIL_DISABLED
  std::optional<nanobind::ft_object_guard> alone_;
#endif
};
inline bool take_buffer(nanobind::handle object, Py_buffer& view, int flags) {
  [[maybe_unused]] const ExporterGuard alone(object);
  return PyObject_GetBuffer(object.ptr(), &view, flags) == 0;
}
inline void release_buffer(Py_buffer& view) {
  if (view.obj == nullptr) return;
  outlive_python([&] {
    PyObject* const exporter = view.obj;
    Py_INCREF(exporter);  // which has the lock; not by an object: see outlive_python()
    {
      [[maybe_unused]] const ExporterGuard alone(exporter);
      PyBuffer_Release(&view);
    }
    Py_DECREF(exporter);
  });
}

// A contiguous Python buffer, or memory of a GPU (CudaBytes), held for the length of a call, or by
// a SharedBuffer for as long as an operation needs it. While a buffer is held, its object neither
// frees nor resizes the memory. Needs the GIL at both ends.
class PythonBuffer {
 public:
  static PythonBuffer readable(nanobind::handle object) {
    return PythonBuffer(object, PyBUF_SIMPLE);
  }
  static PythonBuffer writable(nanobind::handle object) {
    return PythonBuffer(object, PyBUF_WRITABLE);
  }
  ~PythonBuffer() { release_buffer(view_); }
  PythonBuffer(const PythonBuffer&) = delete;
  PythonBuffer& operator=(const PythonBuffer&) = delete;

  ByteView bytes() const { return {view_.buf, size()}; }
  MutableByteView mutable_bytes() const { return {view_.buf, size()}; }
  std::size_t size() const { return static_cast<std::size_t>(view_.len); }
  bool on_gpu() const { return on_gpu_; }
  // What is held becomes the caller's, who ends it with release_buffer(); this is empty then.
  Py_buffer take() { return std::exchange(view_, Py_buffer{}); }

 protected:
  PythonBuffer() = default;  // holds nothing

  Py_buffer view_{};

 private:
  PythonBuffer(nanobind::handle object, int flags) {
    const CudaBytes* cuda = nullptr;
    if (nanobind::try_cast(object, cuda)) {
      cuda->check_access(flags == PyBUF_WRITABLE);
      on_gpu_ = true;
      view_.buf = cuda->data;
      view_.len = static_cast<Py_ssize_t>(cuda->size);
      view_.obj = nanobind::borrow(object).release().ptr();
      return;
    }
    if (!take_buffer(object, view_, flags)) throw nanobind::python_error();
  }

  bool on_gpu_ = false;
};

}  // namespace farwrite::python
