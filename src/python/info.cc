#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <string>
#include <utility>
#include <vector>

#include "core/tls_library.h"
#include "device/fabrics.h"
#include "fabric/topology.h"
#include "farwrite/options.h"
#include "memory/copy.h"
#include "python/gil.h"
#include "python/module.h"

namespace farwrite::python {
namespace {

namespace nb = nanobind;

nb::list fabrics(const DeviceOptions& options) {
  const auto reports = without_gil([&] { return fabric::describe_fabrics(options); });
  nb::list list;
  for (const fabric::FabricReport& report : reports) {
    nb::list more;
    for (const std::string& line : report.more) more.append(line);
    nb::dict entry;
    entry["name"] = std::string(to_string(report.kind));
    entry["usable"] = report.usable;
    entry["reason"] = report.reason;
    entry["more"] = std::move(more);
    list.append(entry);
  }
  return list;
}

nb::dict to_dict(const fabric::PciDevice& device) {
  const auto known = [](const std::string& text) -> nb::object {
    return text.empty() ? nb::none() : nb::cast(text);
  };
  nb::dict entry;
  entry["name"] = device.name;
  entry["pci_address"] = known(device.address);
  entry["host_bridge"] = known(device.host_bridge);
  entry["numa_node"] = device.numa_node < 0 ? nb::none() : nb::cast(device.numa_node);
  return entry;
}

nb::dict topology(const std::string& sysfs) {
  const fabric::Topology machine(sysfs);
  const std::vector<fabric::PciDevice> adapters = machine.adapters();
  nb::list adapter_entries;
  for (const fabric::PciDevice& adapter : adapters) adapter_entries.append(to_dict(adapter));
  nb::list gpu_entries;
  for (const fabric::PciDevice& gpu : machine.gpus()) {
    nb::list direct;
    for (const fabric::PciDevice& adapter : adapters) {
      if (fabric::reaches_directly(adapter, gpu)) direct.append(adapter.name);
    }
    nb::dict entry = to_dict(gpu);
    entry["direct_adapters"] = std::move(direct);
    gpu_entries.append(entry);
  }
  nb::dict result;
  result["adapters"] = std::move(adapter_entries);
  result["gpus"] = std::move(gpu_entries);
  return result;
}

// Empty when devices can encrypt here.
std::string why_encryption_cannot_work() { return core::TlsLibrary::open().status().message(); }

nb::list copy_kernels() {
  const auto kernels = without_gil([] { return farwrite::copy_kernels(); });
  nb::list list;
  for (const CopyKernel& kernel : kernels) {
    nb::dict entry;
    entry["name"] = std::string(kernel.name);
    entry["supported"] = kernel.supported;
    entry["gb_s"] = kernel.probed_gb_s;
    entry["chosen"] = kernel.chosen;
    list.append(entry);
  }
  return list;
}

}  // namespace

void bind_info(nb::module_& module) {
  module.def("fabrics", &fabrics, nb::arg("options"),
             nb::sig("def fabrics(options: DeviceOptions) -> list[dict[str, object]]"));
  module.def("topology", &topology, nb::arg("sysfs"),
             nb::sig("def topology(sysfs: str) -> dict[str, list[dict[str, object]]]"));
  module.def("why_encryption_cannot_work", &why_encryption_cannot_work,
             nb::sig("def why_encryption_cannot_work() -> str"));
  module.def("copy_kernels", &copy_kernels,
             nb::sig("def copy_kernels() -> list[dict[str, object]]"));
}

}  // namespace farwrite::python
