#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <string>
#include <utility>

#include "core/tls_library.h"
#include "fabric/fabrics.h"
#include "farwrite/copy.h"
#include "farwrite/options.h"
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
  module.def("why_encryption_cannot_work", &why_encryption_cannot_work,
             nb::sig("def why_encryption_cannot_work() -> str"));
  module.def("copy_kernels", &copy_kernels,
             nb::sig("def copy_kernels() -> list[dict[str, object]]"));
}

}  // namespace farwrite::python
