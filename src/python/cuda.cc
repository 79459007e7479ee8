// Arrays on GPUs: in from DLPack and __cuda_array_interface__, out by DLPack.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "farwrite/gpu.h"
#include "farwrite/memory_kind.h"
#include "python/cuda_bytes.h"
#include "python/dlpack_type.h"
#include "python/dlpack_view.h"
#include "python/errors.h"
#include "python/held.h"
#include "python/module.h"

namespace farwrite::python {
namespace {

namespace nb = nanobind;
// The bytes, the element type as farwrite.memory.description writes it, and the shape.
using CudaTuple = nb::typed<nb::tuple, CudaBytes, std::string, nb::tuple>;

CudaTuple view_cuda_dlpack(const std::string& operation, nb::handle capsule) {
  const DlpackView view =
      DlpackView::of(operation, capsule,
                     {nb::device::cuda::value, "the array is not in the memory of a CUDA GPU"});
  if (view.device_id < 0) {
    raise(Status(StatusCode::kInvalidArgument, operation + ": the array says that it is on cuda:" +
                                                   std::to_string(view.device_id) +
                                                   "; give one on a GPU of this process"));
  }
  CudaBytes bytes{static_cast<std::byte*>(view.data), view.bytes, view.device_id, view.writable,
                  view.owner};
  return nb::make_tuple(std::move(bytes), view.dtype, view.shape);
}

CudaBytes view_cuda_memory(std::uintptr_t address, std::size_t size, int ordinal, bool writable,
                           nb::object owner) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): __cuda_array_interface__ brings numbers.
  return {reinterpret_cast<std::byte*>(address), size, ordinal, writable, std::move(owner)};
}

int gpu_of(const std::string& operation, std::uintptr_t address) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  const MemoryKind kind = value_or_raise(kind_of_memory(reinterpret_cast<const void*>(address)));
  if (kind.on_gpu()) return kind.ordinal();
  raise(Status(StatusCode::kInvalidArgument,
               operation + ": the pointer is not in the memory of a CUDA GPU"));
}

void await_stream(int ordinal, std::uintptr_t stream) {
  raise_if_error(without_gil([&] { return wait_for_stream(MemoryKind::cuda(ordinal), stream); }));
}

template <typename... Access>
nb::object export_as(nb::handle self, const CudaBytes& bytes, const std::string& dtype,
                     const std::vector<std::size_t>& shape) {
  return nb::cast(nb::ndarray<nb::array_api, Access...>(bytes.data, shape.size(), shape.data(),
                                                        self, nullptr, type_of(dtype),
                                                        nb::device::cuda::value, bytes.ordinal));
}

nb::object export_dlpack(nb::handle self, const std::string& dtype,
                         const std::vector<std::size_t>& shape) {
  const auto& bytes = nb::cast<const CudaBytes&>(self);
  return bytes.writable ? export_as(self, bytes, dtype, shape)
                        : export_as<nb::ro>(self, bytes, dtype, shape);
}

}  // namespace

void CudaBytes::check_access(bool writes) const {
  raise_if_error(use_cuda());  // it is open already, but in a forked child
  if (writes && !writable) {
    raise(Status(StatusCode::kInvalidArgument,
                 "the memory on the GPU is read-only; give an array that may be written"));
  }
}

void bind_cuda(nb::module_& module) {
  nb::class_<CudaBytes>(module, "CudaBytes")
      .def_ro("size", &CudaBytes::size)
      .def_ro("ordinal", &CudaBytes::ordinal)
      .def_ro("writable", &CudaBytes::writable)
      .def_prop_ro(
          "address",
          [](const CudaBytes& bytes) { return reinterpret_cast<std::uintptr_t>(bytes.data); })
      .def("export_dlpack", &export_dlpack, nb::arg("dtype"), nb::arg("shape"),
           "An object with __dlpack__; ValueError if DLPack has no such element type.",
           nb::sig("def export_dlpack(self, dtype: str, shape: list[int]) -> Any"));
  module.def("view_cuda_dlpack", &view_cuda_dlpack, nb::arg("operation"), nb::arg("capsule"),
             nb::sig("def view_cuda_dlpack(operation: str, capsule: object) -> "
                     "tuple[CudaBytes, str, tuple[int, ...]]"));
  module.def("view_cuda_memory", &view_cuda_memory, nb::arg("address"), nb::arg("size"),
             nb::arg("ordinal"), nb::arg("writable"), nb::arg("owner"));
  module.def("gpu_of", &gpu_of, nb::arg("operation"), nb::arg("address"),
             "The number of the GPU that has the memory.");
  module.def("use_cuda", [] { raise_if_error(without_gil([] { return use_cuda(); })); });
  module.def("wait_for_stream", &await_stream, nb::arg("ordinal"), nb::arg("stream"));
}

}  // namespace farwrite::python
