#include <fcntl.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "core/tls_library.h"
#include "core/unique_fd.h"
#include "fabric/verbs.h"
#include "farwrite/copy.h"
#include "farwrite/options.h"
#include "python/gil.h"
#include "python/module.h"

namespace farwrite::python {
namespace {

namespace nb = nanobind;

std::string system_call_failed(std::string_view call) {
  return std::string(call) + ": " + std::system_category().message(errno);
}

// What the shm fabric asks of the kernel, tried out. Empty when all is there.
std::string why_shm_cannot_work() {
  const core::UniqueFd memory(::memfd_create("farwrite-info", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (memory.get() < 0) return system_call_failed("memfd_create");
  if (::ftruncate(memory.get(), 4096) != 0) return system_call_failed("ftruncate of a memfd");
  if (::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE) != 0) {
    return system_call_failed("sealing a memfd (needs Linux 5.1)");
  }
  const core::UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
  if (process.get() < 0) return system_call_failed("pidfd_open (needs Linux 5.3)");
  return {};
}

// `more`: further ways to be reached by it.
nb::dict entry_of(FabricKind kind, bool usable, const std::string& reason,
                  nb::list more = nb::list()) {
  nb::dict entry;
  entry["name"] = std::string(to_string(kind));
  entry["usable"] = usable;
  entry["reason"] = reason;
  entry["more"] = std::move(more);
  return entry;
}

nb::dict verbs(const VerbsOptions& options) {
  const auto addresses = without_gil([&] { return fabric::describe_verbs(options); });
  if (!addresses.ok()) return entry_of(FabricKind::kVerbs, false, addresses.status().message());
  const std::vector<std::string>& lines = addresses.value();
  nb::list more;
  for (std::size_t i = 1; i < lines.size(); ++i) more.append(lines[i]);
  return entry_of(FabricKind::kVerbs, true, lines.front(), std::move(more));
}

nb::list fabrics(const DeviceOptions& options) {
  const std::string shm_fault = why_shm_cannot_work();
  nb::list list;
  list.append(entry_of(FabricKind::kShm, shm_fault.empty(),
                       shm_fault.empty() ? "peers of the same user on this host" : shm_fault));
  list.append(entry_of(FabricKind::kTcp, true, "peers anywhere; for those that shm cannot reach"));
  list.append(verbs(options.verbs));
  list.append(entry_of(FabricKind::kSimulated, false, "in-process, for the tests of the C++ core"));
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
