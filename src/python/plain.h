// Calls with plain arguments: NumPy's own arrays, bytes, and Python's own ints, which fit as they
// are. They are checked here, so that no Python code runs between a program's call and the
// operation. What is not plain is left to the checks in Python, which convert it or say what is
// wrong.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "farwrite/region.h"
#include "python/held.h"

namespace farwrite::python {

// A PythonBuffer of a C-contiguous numpy.ndarray without Python objects or of bytes, and of no
// subclass.
class PlainBuffer : public PythonBuffer {
 public:
  // Of anything else, or one that is not writable where it must be, !valid().
  static PlainBuffer readable(nanobind::handle object) { return PlainBuffer(object, 0); }
  static PlainBuffer writable(nanobind::handle object) {
    return PlainBuffer(object, PyBUF_WRITABLE);
  }

  bool valid() const { return view_.obj != nullptr; }
  const Py_buffer& view() const { return view_; }

 private:
  PlainBuffer(nanobind::handle object, int flags);
};

// A Python int that fits; no bool, and none of a subclass.
std::optional<std::uint32_t> plain_word(nanobind::handle value);
std::optional<std::uint64_t> plain_offset(nanobind::handle value);

// A peer's region, with what the array in it is.
class RemoteArrayRegion : public Held<RemoteRegion> {
 public:
  // Of lookup() or open(), which have mapped it: where it lies no longer changes.
  explicit RemoteArrayRegion(RemoteRegion region)
      : Held(std::move(region)), on_gpu_(facts().kind().on_gpu()) {}

  bool on_gpu() const { return on_gpu_; }

  // What plain sources and destinations must be: elements of the format that the buffer protocol
  // gives for the array's dtype, in its shape. Once, before threads share the region; until then
  // nothing is placed.
  void lay_out(std::string format, std::uint64_t itemsize, std::vector<std::uint64_t> shape);
  // The offset in bytes of element `start`, if the elements of `buffer` fit there and are the
  // array's: a run of elements, or whole rows of it.
  std::optional<std::uint64_t> place(const PlainBuffer& buffer, std::uint64_t start) const;

 private:
  const bool on_gpu_;
  std::string format_;
  std::uint64_t itemsize_ = 0;
  std::uint64_t elements_ = 0;
  std::vector<std::uint64_t> shape_;
};

}  // namespace farwrite::python
