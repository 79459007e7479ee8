// Arrays of other libraries, with the element types that NumPy lacks.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <string>
#include <utility>

#include "python/dlpack_type.h"
#include "python/errors.h"
#include "python/held.h"
#include "python/module.h"

namespace farwrite::python {
namespace {

namespace nb = nanobind;
// The bytes, the element type as farwrite.description writes it, and the shape.
using DlpackTuple = nb::typed<nb::tuple, nb::object, std::string, nb::tuple>;

[[noreturn]] void refuse(const std::string& operation, const std::string& cause) {
  raise(Status(StatusCode::kInvalidArgument, operation + ": " + cause));
}

template <typename View, typename Array>
DlpackTuple to_tuple(const std::string& operation, const Array& array) {
  if (array.device_type() != nb::device::cpu::value) {
    refuse(operation, "the array is not in the CPU's memory; copy it, for example with x.cpu()");
  }
  if (!is_contiguous(array)) {
    refuse(operation, "the array is not C-contiguous; copy it, for example with x.contiguous()");
  }
  const std::string text = text_of(array.dtype());
  if (text.empty()) refuse(operation, "NumPy has no name for the array's element type; convert it");
  nb::list shape;
  for (std::size_t i = 0; i < array.ndim(); ++i) shape.append(array.shape(i));
  const nb::capsule owner(new Array(array),
                          [](void* held) noexcept { delete static_cast<Array*>(held); });
  using Byte = typename View::Scalar;
  return nb::make_tuple(View(static_cast<Byte*>(array.data()), {array.nbytes()}, owner), text,
                        nb::tuple(shape));
}

DlpackTuple view_dlpack(const std::string& operation, nb::handle exporter) {
  nb::ndarray<> writable;
  if (nb::try_cast(exporter, writable, /*convert=*/false)) {
    return to_tuple<BytesArray>(operation, writable);
  }
  nb::ndarray<nb::ro> readable;
  if (nb::try_cast(exporter, readable, /*convert=*/false)) {
    return to_tuple<ReadOnlyBytesArray>(operation, readable);
  }
  refuse(operation, "the array does not export DLPack now; if it records gradients, x.detach()");
}

}  // namespace

void bind_dlpack(nb::module_& module) {
  module.def("view_dlpack", &view_dlpack, nb::arg("operation"), nb::arg("exporter"),
             nb::sig("def view_dlpack(operation: str, exporter: object) -> "
                     "tuple[object, str, tuple[int, ...]]"));
}

}  // namespace farwrite::python
