#include "fabric/verbs/verbs_library.h"

#include <dlfcn.h>

#include <type_traits>

#include "fabric/verbs/real_library.h"

namespace farwrite::fabric::verbs {
namespace {

Status unusable(const std::string& cause) {
  return Status::error(
      StatusCode::kUnavailable, {"use verbs"}, cause,
      "install rdma-core 32 or newer (packages libibverbs1, librdmacm1 and ibverbs-providers on "
      "Debian and Ubuntu, libibverbs and librdmacm on Fedora and RHEL), or leave verbs out of "
      "fabrics");
}

// Finds functions in one file; remembers the first that is missing.
class File {
 public:
  explicit File(const std::string& name)
      : name_(name), handle_(::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ != nullptr) return;
    const char* const text = ::dlerror();
    problem_ = name_ + " cannot be opened: " + (text == nullptr ? "unknown error" : text);
  }

  template <typename Function>
  void find(Function& function, const char* name, bool needed) {
    if (handle_ == nullptr) return;
    // The newest version of a function that has several: the one that verbs.h declares.
    void* const symbol = ::dlsym(handle_, name);
    if (symbol == nullptr && needed && problem_.empty()) problem_ = name_ + " has no " + name;
    function = reinterpret_cast<Function>(symbol);
  }

  const std::string& problem() const { return problem_; }

 private:
  std::string name_;
  std::string problem_;
  void* handle_;
};

}  // namespace

Result<Functions> Functions::load(const std::string& verbs_file, const std::string& cm_file) {
  Functions functions;
  File verbs(verbs_file);
#define FARWRITE_FIND(name) verbs.find(functions.name, #name, true);
  FARWRITE_VERBS_FUNCTIONS(FARWRITE_FIND)
#undef FARWRITE_FIND
#define FARWRITE_FIND(name) verbs.find(functions.name, #name, false);
  FARWRITE_VERBS_OPTIONAL_FUNCTIONS(FARWRITE_FIND)
#undef FARWRITE_FIND
  if (!verbs.problem().empty()) return unusable(verbs.problem());
  File cm(cm_file);
#define FARWRITE_FIND(name) cm.find(functions.name, #name, true);
  FARWRITE_CM_FUNCTIONS(FARWRITE_FIND)
#undef FARWRITE_FIND
  if (!cm.problem().empty()) return unusable(cm.problem());
  // Before anything else is called. Linux 5.12 and newer need nothing; on older ones a page that an
  // adapter writes while a child is forked would otherwise get lost between the two processes. If
  // it is too late, because somebody else in this process uses verbs, that one has decided.
  if (functions.ibv_fork_init != nullptr) (void)functions.ibv_fork_init();
  return functions;
}

Result<VerbsLibrary*> VerbsLibrary::open() {
  static const Result<Functions>* const loaded =
      new Result<Functions>(Functions::load("libibverbs.so.1", "librdmacm.so.1"));
  if (!loaded->ok()) return loaded->status();
  static RealLibrary* const library = new RealLibrary(loaded->value());  // threads may be inside
  return static_cast<VerbsLibrary*>(library);
}

}  // namespace farwrite::fabric::verbs
