#include "python/plain.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <numeric>
#include <utility>

namespace farwrite::python {
namespace {

namespace nb = nanobind;

// numpy.ndarray, or null before NumPy has been imported. NumPy is never unloaded.
PyTypeObject* array_type() {
  static std::atomic<PyTypeObject*> found{nullptr};
  PyTypeObject* type = found.load(std::memory_order_acquire);
  if (type != nullptr) return type;
  const nb::object numpy = nb::steal(PyImport_GetModule(nb::str("numpy").ptr()));
  if (!numpy.is_valid()) PyErr_Clear();
  if (!numpy.is_valid() || !nb::hasattr(numpy, "ndarray")) return nullptr;  // or being imported
  type = reinterpret_cast<PyTypeObject*>(nb::object(numpy.attr("ndarray")).release().ptr());
  found.store(type, std::memory_order_release);
  return type;
}

bool is_plain(PyTypeObject* type) { return type == &PyBytes_Type || type == array_type(); }

// Not a subclass's, whose value a program may have changed.
std::optional<std::uint64_t> plain_int(nb::handle value, std::uint64_t most) {
  if (!PyLong_CheckExact(value.ptr())) return std::nullopt;
  int overflow = 0;
  const long long number = PyLong_AsLongLongAndOverflow(value.ptr(), &overflow);
  if (overflow != 0 || number < 0 || static_cast<std::uint64_t>(number) > most) return std::nullopt;
  return static_cast<std::uint64_t>(number);
}

}  // namespace

PlainBuffer::PlainBuffer(nb::handle object, int flags) {
  if (!is_plain(Py_TYPE(object.ptr()))) return;
  constexpr int kForm = PyBUF_FORMAT | PyBUF_C_CONTIGUOUS;
  // Not contiguous, read-only, or of a dtype that has no format.
  if (!take_buffer(object, view_, kForm | flags)) {
    PyErr_Clear();
  } else if (std::strchr(view_.format, 'O') != nullptr) {
    release_buffer(view_);  // Python objects, if not a field with that letter in its name
  }
}

std::optional<std::uint32_t> plain_word(nb::handle value) {
  const std::optional<std::uint64_t> number = plain_int(value, UINT32_MAX);
  if (!number) return std::nullopt;
  return static_cast<std::uint32_t>(*number);
}

std::optional<std::uint64_t> plain_offset(nb::handle value) { return plain_int(value, INT64_MAX); }

void RemoteArrayRegion::lay_out(std::string format, std::uint64_t itemsize,
                                std::vector<std::uint64_t> shape) {
  format_ = std::move(format);
  itemsize_ = itemsize;
  elements_ = std::accumulate(shape.begin(), shape.end(), std::uint64_t{1}, std::multiplies<>());
  shape_ = std::move(shape);
}

std::optional<std::uint64_t> RemoteArrayRegion::place(const PlainBuffer& buffer,
                                                      std::uint64_t start) const {
  const Py_buffer& view = buffer.view();
  if (itemsize_ == 0 || format_ != view.format) return std::nullopt;
  // One dimension is a run of elements; more must match from behind, so that rows meet rows.
  const auto axes = static_cast<std::size_t>(view.ndim);
  if (axes > 1) {
    if (axes > shape_.size()) return std::nullopt;
    const auto rows = shape_.end() - static_cast<std::ptrdiff_t>(axes - 1);
    const bool same = std::equal(rows, shape_.end(), view.shape + 1, [](auto ours, auto theirs) {
      return ours == static_cast<std::uint64_t>(theirs);
    });
    if (!same) return std::nullopt;
  }
  const std::uint64_t count = buffer.size() / itemsize_;
  if (start > elements_ || count > elements_ - start) return std::nullopt;
  return start * itemsize_;
}

}  // namespace farwrite::python
