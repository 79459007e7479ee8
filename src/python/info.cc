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

#include "core/tls_library.h"
#include "core/unique_fd.h"
#include "farwrite/options.h"
#include "memory/copy.h"
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

nb::dict fabric(FabricKind kind, bool usable, const std::string& reason) {
  nb::dict entry;
  entry["name"] = std::string(to_string(kind));
  entry["usable"] = usable;
  entry["reason"] = reason;
  return entry;
}

nb::list fabrics() {
  const std::string shm_fault = why_shm_cannot_work();
  nb::list list;
  list.append(fabric(FabricKind::kShm, shm_fault.empty(),
                     shm_fault.empty() ? "peers of the same user on this host" : shm_fault));
  list.append(fabric(FabricKind::kTcp, true, "peers anywhere; for those that shm cannot reach"));
  list.append(fabric(FabricKind::kVerbs, false, "not built yet"));
  list.append(fabric(FabricKind::kSimulated, false, "in-process, for the tests of the C++ core"));
  return list;
}

// Empty when devices can encrypt here.
std::string why_encryption_cannot_work() { return core::TlsLibrary::open().status().message(); }

nb::list copy_kernels() {
  const auto kernels = without_gil([] { return memory::copy_kernels(); });
  nb::list list;
  for (const memory::CopyKernel& kernel : kernels) {
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
  module.def("fabrics", &fabrics, nb::sig("def fabrics() -> list[dict[str, object]]"));
  module.def("why_encryption_cannot_work", &why_encryption_cannot_work,
             nb::sig("def why_encryption_cannot_work() -> str"));
  module.def("copy_kernels", &copy_kernels,
             nb::sig("def copy_kernels() -> list[dict[str, object]]"));
}

}  // namespace farwrite::python
