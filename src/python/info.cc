#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <string>
#include <utility>

#include "farwrite/c_about.h"
#include "farwrite/copy.h"
#include "python/described.h"
#include "python/errors.h"
#include "python/gil.h"
#include "python/module.h"
#include "python/options.h"

namespace farwrite::python {
namespace {

namespace nb = nanobind;

nb::object fabrics(const Options& options) {
  const fw_device_options* const fields = value_or_raise(options.fields());
  return described([&](fw_text_handler on_text, void* context) {
    return fw_about_fabrics(fields, on_text, context);
  });
}

nb::object topology(const std::string& sysfs) {
  const char* const folder = c_text("read the topology", "the path", sysfs);
  return described([&](fw_text_handler on_text, void* context) {
    return fw_about_topology(folder, on_text, context);
  });
}

// Empty when devices can encrypt here.
std::string why_encryption_cannot_work() { return taken(fw_check_encryption()).message(); }

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
