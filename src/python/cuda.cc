// Arrays on GPUs: in from DLPack and __cuda_array_interface__, out by DLPack.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <string>
#include <vector>

#include "farwrite/memory_kind.h"
#include "python/cuda_bytes.h"
#include "python/dlpack_type.h"
#include "python/errors.h"
#include "python/held.h"
#include "python/module.h"

namespace farwrite::python {
namespace {

namespace nb = nanobind;
using GpuArray = nb::ndarray<nb::array_api>;
// The bytes, the element type as farwrite.description writes it, and the shape.
using CudaTuple = nb::typed<nb::tuple, CudaBytes, std::string, nb::tuple>;

[[noreturn]] void refuse(const std::string& operation, const std::string& cause) {
  raise(Status(StatusCode::kInvalidArgument, operation + ": " + cause));
}

template <typename Array>
CudaTuple to_tuple(const std::string& operation, const Array& array, bool writable) {
  if (array.device_type() != nb::device::cuda::value) {
    refuse(operation, "the array is not in the memory of a CUDA GPU");
  }
  if (!is_contiguous(array)) {
    refuse(operation, "the array is not C-contiguous; copy it, for example with x.contiguous()");
  }
  const std::string text = text_of(array.dtype());
  if (text.empty()) refuse(operation, "NumPy has no name for the array's element type; convert it");
  nb::list shape;
  for (std::size_t i = 0; i < array.ndim(); ++i) shape.append(array.shape(i));
  CudaBytes bytes;
  bytes.data = static_cast<std::byte*>(const_cast<void*>(static_cast<const void*>(array.data())));
  bytes.size = array.nbytes();
  bytes.ordinal = array.device_id();
  bytes.writable = writable;
  bytes.owner =
      nb::capsule(new Array(array), [](void* held) noexcept { delete static_cast<Array*>(held); });
  return nb::make_tuple(std::move(bytes), text, nb::tuple(shape));
}

CudaTuple view_cuda_dlpack(const std::string& operation, nb::handle capsule) {
  nb::ndarray<> writable;
  if (nb::try_cast(capsule, writable, /*convert=*/false)) {
    return to_tuple(operation, writable, true);
  }
  nb::ndarray<nb::ro> readable;
  if (nb::try_cast(capsule, readable, /*convert=*/false)) {
    return to_tuple(operation, readable, false);
  }
  refuse(operation, "the array does not export DLPack now; if it records gradients, x.detach()");
}

CudaBytes view_cuda_memory(std::uintptr_t address, std::size_t size, int ordinal, bool writable,
                           nb::object owner) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): __cuda_array_interface__ brings numbers.
  return {reinterpret_cast<std::byte*>(address), size, ordinal, writable, std::move(owner)};
}

int gpu_of(const std::string& operation, std::uintptr_t address) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  const MemoryKind kind = value_or_raise(kind_of_memory(reinterpret_cast<const void*>(address)));
  if (!kind.on_gpu()) refuse(operation, "the pointer is not in the memory of a CUDA GPU");
  return kind.ordinal();
}

void wait(int ordinal, std::uintptr_t stream) {
  raise_if_error(without_gil([&] { return wait_for_stream(MemoryKind::cuda(ordinal), stream); }));
}

nb::object export_dlpack(nb::handle self, const std::string& dtype,
                         const std::vector<std::size_t>& shape) {
  const auto& bytes = nb::cast<const CudaBytes&>(self);
  const GpuArray array(bytes.data, shape.size(), shape.data(), self, nullptr, type_of(dtype),
                       nb::device::cuda::value, bytes.ordinal);
  return nb::cast(array);
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
  module.def("wait_for_stream", &wait, nb::arg("ordinal"), nb::arg("stream"));
}

}  // namespace farwrite::python
