#include "python/module.h"

#include <cxxabi.h>
#include <dlfcn.h>

#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <typeinfo>

#include "python/errors.h"
#include "python/gil.h"
#include "python/held.h"
#include "python/waiting.h"

namespace {

using farwrite::Status;
using farwrite::StatusCode;

// In a wheel of `make wheels`, libfarwrite.so and this module have a libc++ each, so that its
// types of exceptions are others here. Their names are the same.
bool is_bad_alloc(const std::type_info* thrown) {
  if (thrown == nullptr) return false;
  return std::strcmp(thrown->name(), typeid(std::bad_alloc).name()) == 0 ||
         std::strcmp(thrown->name(), typeid(std::bad_array_new_length).name()) == 0;
}

void set_no_memory() {
  farwrite::python::set_error(Status::error(StatusCode::kResourceExhausted, {"call Farwrite"},
                                            "this process was refused memory",
                                            "free memory, or raise the limits (ulimit -v)"));
}

// Why the module cannot be used with the libfarwrite.so that the process has loaded.
std::string another_library() {
  Dl_info info{};
  const bool known = ::dladdr(reinterpret_cast<void*>(&fw_abi_version), &info) != 0;
  return "farwrite: the Python module needs C ABI " + std::to_string(FW_ABI_VERSION) +
         " of Farwrite, and this process has loaded Farwrite " + fw_version() +
         ", which has C ABI " + std::to_string(fw_abi_version()) + ", from " +
         (known ? info.dli_fname : "an unknown file") +
         "; start it without another Farwrite's library: env -u LD_PRELOAD -u LD_LIBRARY_PATH"
         " python3; or, if that file is the installed one, install Farwrite again";
}

}  // namespace

NB_MODULE(_farwrite, module) {
  namespace nb = nanobind;
  using namespace farwrite::python;

  if (fw_abi_version() != FW_ABI_VERSION) {
    throw nb::import_error(another_library().c_str());
  }
  module.doc() = "Bindings of libfarwrite; use the package farwrite instead.";
  // Views may outlive everything, also the interpreter's own bookkeeping: that is no leak.
  nb::set_leak_warnings(false);

  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const ForkedUse& forked) {
      set_error(forked.status());
    } catch (const std::bad_alloc&) {
      set_no_memory();
    } catch (...) {
      if (!is_bad_alloc(abi::__cxa_current_exception_type())) throw;
      set_no_memory();
    }
  });
  // Finds the main thread now: later, two threads might want to at once.
  (void)in_main_thread();
  bind_options(module);
  bind_completion(module);
  bind_region(module);
  bind_channel(module);
  bind_device(module);
  bind_registration(module);
  bind_tensor(module);
  bind_info(module);
  bind_observability(module);
  bind_dlpack(module);
  bind_cuda(module);
  bind_box_segment(module);
  bind_box_client(module);
  bind_box_server(module);
  module.def(
      "find_errors", [] { (void)from_status(); },
      "Find the package's exceptions now: while the interpreter ends, nothing can be imported.");
  module.def("close_gate", &close_gate,
             "Stop Farwrite's threads from entering Python. For atexit.");
}
