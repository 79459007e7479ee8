// Memory of the user's own that stays registered until it is released.
#include "farwrite/registration.h"

#include <nanobind/nanobind.h>

#include <utility>

#include "farwrite/device.h"
#include "python/errors.h"
#include "python/held.h"
#include "python/module.h"

namespace farwrite::python {
namespace {

namespace nb = nanobind;

// Holds the buffer for as long as the registration, so that nothing resizes or frees it meanwhile.
class HeldMemory {
 public:
  HeldMemory(Held<Device>& device, nb::handle object, bool writable) {
    if (!take_buffer(object, view_, writable ? PyBUF_WRITABLE : PyBUF_SIMPLE)) {
      throw nb::python_error();
    }
    const auto bytes = static_cast<std::size_t>(view_.len);
    auto registered = without_gil([&] {
      return writable ? device->register_memory(MutableByteView(view_.buf, bytes))
                      : device->register_memory(ByteView(view_.buf, bytes));
    });
    if (!registered.ok()) {
      release_buffer(view_);
      raise(registered.status());
    }
    registration_ = std::move(registered).value();
  }
  ~HeldMemory() {
    const nb::error_scope keep_error;
    release();
  }
  HeldMemory(const HeldMemory&) = delete;
  HeldMemory& operator=(const HeldMemory&) = delete;

  void release() {
    MemoryRegistration mine;
    Py_buffer view{};
    {  // two threads may release at once
      const nb::ft_lock_guard lock(mutex_);
      mine = std::move(registration_);
      view = std::exchange(view_, Py_buffer{});
    }
    without_gil([&] { mine.release(); });
    release_buffer(view);
  }
  std::size_t size() const {
    const nb::ft_lock_guard lock(mutex_);
    return registration_.memory().size;
  }
  bool has_effect() const {
    const nb::ft_lock_guard lock(mutex_);
    return registration_.has_effect();
  }

 private:
  mutable nb::ft_mutex mutex_;  // guards both; where there is a GIL, that does, and this is nothing
  Py_buffer view_{};
  MemoryRegistration registration_;
};

}  // namespace

void bind_registration(nb::module_& module) {
  nb::class_<HeldMemory>(module, "MemoryRegistration")
      .def(nb::init<Held<Device>&, nb::handle, bool>(), nb::arg("device"), nb::arg("memory"),
           nb::arg("writable"))
      .def("release", &HeldMemory::release)
      .def("size", &HeldMemory::size)
      .def("has_effect", &HeldMemory::has_effect);
}

}  // namespace farwrite::python
