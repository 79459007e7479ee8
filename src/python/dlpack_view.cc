#include "python/dlpack_view.h"

#include <cstdint>
#include <utility>

#include "python/dlpack_type.h"
#include "python/errors.h"

namespace farwrite::python {
namespace {

namespace nb = nanobind;

[[noreturn]] void refuse(const std::string& operation, const std::string& cause) {
  raise(Status(StatusCode::kInvalidArgument, operation + ": " + cause));
}

template <typename Array>
bool is_contiguous(const Array& array) {
  std::int64_t step = 1;
  for (std::size_t i = array.ndim(); i-- > 0;) {
    const auto length = static_cast<std::int64_t>(array.shape(i));
    if (length == 0) return true;
    if (length != 1 && array.stride(i) != step) return false;
    step *= length;
  }
  return true;
}

template <typename Array>
DlpackView view(const std::string& operation, const Array& array, DlpackPlace place) {
  if (array.device_type() != place.type) refuse(operation, place.cause_elsewhere);
  if (!is_contiguous(array)) {
    refuse(operation,
           "the array is not C-contiguous; copy it, for example with y = x.contiguous(), and if it "
           "is to be changed copy that back: x.copy_(y)");
  }
  DlpackView found;
  found.dtype = text_of(array.dtype());
  if (found.dtype.empty()) {
    refuse(operation, "NumPy has no name for the array's element type; convert it");
  }
  nb::list shape;
  for (std::size_t i = 0; i < array.ndim(); ++i) shape.append(array.shape(i));
  found.shape = nb::tuple(shape);
  found.data = const_cast<void*>(static_cast<const void*>(array.data()));
  found.bytes = array.nbytes();
  found.device_id = array.device_id();
  found.owner =
      nb::capsule(new Array(array), [](void* held) noexcept { delete static_cast<Array*>(held); });
  return found;
}

}  // namespace

DlpackView DlpackView::of(const std::string& operation, nb::handle exporter, DlpackPlace place) {
  nb::ndarray<> writable;
  if (nb::try_cast(exporter, writable, /*convert=*/false)) {
    DlpackView found = view(operation, writable, place);
    found.writable = true;
    return found;
  }
  nb::ndarray<nb::ro> readable;
  if (nb::try_cast(exporter, readable, /*convert=*/false)) return view(operation, readable, place);
  refuse(operation, "the array does not export DLPack now; if it records gradients, x.detach()");
}

}  // namespace farwrite::python
