#include "farwrite/region.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "python/cuda_bytes.h"
#include "python/errors.h"
#include "python/held.h"
#include "python/module.h"
#include "python/plain.h"
#include "python/waiting.h"

namespace farwrite::python {
namespace {

namespace nb = nanobind;

std::string access_name(Access access) { return access == Access::kWrite ? "write" : "read"; }

nb::bytes descriptor_bytes(const RegionDescriptor& descriptor) {
  const std::vector<std::byte> bytes = descriptor.to_bytes();
  return nb::bytes(bytes.data(), bytes.size());
}

BytesArray view_region(Held<MemoryRegion>& region) {
  return view_bytes<BytesArray>(reinterpret_cast<std::uint8_t*>(region->data()), region->size(),
                                *region);
}

// Keeps the region alive.
CudaBytes view_cuda(Held<MemoryRegion>& region) {
  nb::capsule owner(new Held<MemoryRegion>(*region),
                    [](void* held) noexcept { delete static_cast<Held<MemoryRegion>*>(held); });
  return {region->data(), region->size(), region->kind().ordinal(), /*writable=*/true,
          std::move(owner)};
}

void close_region(Held<MemoryRegion>& region, std::optional<double> timeout) {
  const auto limit = to_timeout(timeout);
  raise_if_error(without_gil([&] { return region->close(limit); }));
}

}  // namespace

void bind_region(nb::module_& module) {
  using Local = Held<MemoryRegion>;
  nb::class_<Local>(module, "MemoryRegion")
      .def("view", &view_region, "The region's bytes as a writable array; keeps the region alive.")
      .def("view_cuda", &view_cuda, "The same for a region on a GPU.")
      .def("on_gpu", [](const Local& region) { return region.facts().kind().on_gpu(); })
      .def("size", [](const Local& region) { return region.facts().size(); })
      .def("access", [](const Local& region) { return access_name(region.facts().access()); })
      .def("descriptor",
           [](const Local& region) { return descriptor_bytes(region.facts().descriptor()); })
      .def("close", &close_region, nb::arg("timeout").none());

  using Remote = RemoteArrayRegion;
  nb::class_<Remote>(module, "RemoteRegion")
      .def("lay_out", &Remote::lay_out, nb::arg("format"), nb::arg("itemsize"), nb::arg("shape"))
      .def("on_gpu", [](const Remote& region) { return region.facts().kind().on_gpu(); })
      .def("size", [](const Remote& region) { return region.facts().size(); })
      .def("access", [](const Remote& region) { return access_name(region.facts().access()); })
      .def("description",
           [](const Remote& region) {
             const std::string& text = region.facts().description();
             return nb::bytes(text.data(), text.size());
           })
      .def("descriptor",
           [](const Remote& region) { return descriptor_bytes(region.facts().descriptor()); });
}

}  // namespace farwrite::python
