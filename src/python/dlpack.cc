// Arrays of other libraries, with the element types that NumPy lacks.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <string>

#include "python/dlpack_view.h"
#include "python/held.h"
#include "python/module.h"

namespace farwrite::python {
namespace {

namespace nb = nanobind;
// The bytes, the element type as farwrite.memory.description writes it, and the shape.
using DlpackTuple = nb::typed<nb::tuple, nb::object, std::string, nb::tuple>;

DlpackTuple view_dlpack(const std::string& operation, nb::handle exporter) {
  const DlpackView view =
      DlpackView::of(operation, exporter,
                     {nb::device::cpu::value,
                      "the array is not in the CPU's memory; copy it, for example with x.cpu()"});
  auto* const bytes = static_cast<std::uint8_t*>(view.data);
  if (view.writable) {
    return nb::make_tuple(BytesArray(bytes, {view.bytes}, view.owner), view.dtype, view.shape);
  }
  return nb::make_tuple(ReadOnlyBytesArray(bytes, {view.bytes}, view.owner), view.dtype,
                        view.shape);
}

}  // namespace

void bind_dlpack(nb::module_& module) {
  module.def("view_dlpack", &view_dlpack, nb::arg("operation"), nb::arg("exporter"),
             nb::sig("def view_dlpack(operation: str, exporter: object) -> "
                     "tuple[object, str, tuple[int, ...]]"));
}

}  // namespace farwrite::python
