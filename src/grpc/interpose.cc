// Stands in front of gRPC's library: every connection's bytes pass here, and slices are allocated
// in memory that peers may read, and own it. See hooks.h; docs/how-to/grpc.md.
#include <dlfcn.h>
#include <strings.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <string_view>

#include "farwrite/c_status.h"
#include "farwrite/grpc.h"
#include "grpc/hooks.h"

#define FW_TEXT_OF(number) #number
#define FW_TEXT(macro) FW_TEXT_OF(macro)

namespace {

using farwrite::grpc::GrpcStatus;
using farwrite::grpc::Hooks;
using farwrite::grpc::PeerText;
using farwrite::grpc::TcpCreate;

constexpr char kGrpcLibrary[] = "libgrpc.so.29";
constexpr char kComponent[] = "libfarwrite_grpc_1_51.so";
constexpr char kFarwrite[] = "libfarwrite.so";
// `farwrite run` looks for this text in the file before it starts a program.
[[gnu::used]] constexpr char kBuiltFor[] = "farwrite-grpc: C ABI " FW_TEXT(FW_ABI_VERSION);
// The beginning of what the mark of `farwrite run` is a link to.
constexpr char kMark[] = "/memfd:farwrite-grpc";
constexpr char kTcpCreate[] =
    "_Z15grpc_tcp_createP7grpc_fdRKN9grpc_core15PosixTcpOptionsEN4absl7debian311string_viewE";
constexpr char kPollsetWork[] =
    "_Z17grpc_pollset_workP12grpc_pollsetPP19grpc_pollset_workerN9grpc_core9TimestampE";
constexpr char kPollsetKick[] = "_Z17grpc_pollset_kickP12grpc_pollsetP19grpc_pollset_worker";
// Below, gRPC's own memory is as good.
constexpr std::size_t kOurSlicesFrom = 8192;

std::atomic<bool> enabled{false};
std::atomic<const Hooks*> hooks{nullptr};

// gRPC's own function, which the one here hides.
template <typename Function>
Function original(const char* name) {
  void* const library = ::dlopen(kGrpcLibrary, RTLD_LAZY | RTLD_NOLOAD);
  void* found = library == nullptr ? nullptr : ::dlsym(library, name);
  if (library != nullptr) ::dlclose(library);
  if (found == nullptr) found = ::dlsym(RTLD_NEXT, name);
  return reinterpret_cast<Function>(found);
}

std::string folder() {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<void*>(&folder), &info) == 0 || info.dli_fname == nullptr)
    return {};
  const std::string path = info.dli_fname;
  return path.substr(0, path.rfind('/') + 1);
}

// What makes the component fit a release of Farwrite.
std::string remedy(const std::string& release) {
  const std::string own = folder();
  constexpr std::string_view kPackage = "/farwrite_grpc/";
  if (own.size() >= kPackage.size() &&
      own.compare(own.size() - kPackage.size(), kPackage.size(), kPackage) == 0) {
    return "install the component of that release: pip install --force-reinstall --no-deps"
           " farwrite_grpc-" +
           release + "-*.whl";
  }
  return "build the component again, in a checkout of that Farwrite: make grpc";
}

// Why Farwrite's library is not the one that the component was compiled for; empty if it is. Loads
// it: the component takes it by its name, wherever it came from.
std::string misfit() {
  void* library = ::dlopen(kFarwrite, RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) {
    // In Farwrite's own package, or in that of farwrite-grpc beside it.
    std::string path = folder() + kFarwrite;
    if (::access(path.c_str(), F_OK) != 0) path = folder() + "../farwrite/" + kFarwrite;
    library = ::dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
    if (library == nullptr) return ::dlerror();
  }
  using AbiVersion = std::uint32_t (*)();
  using Version = const char* (*)();
  const auto abi_version = reinterpret_cast<AbiVersion>(::dlsym(library, "fw_abi_version"));
  const std::uint32_t found = abi_version == nullptr ? 0 : abi_version();
  if (found == FW_ABI_VERSION) return {};
  const auto version = reinterpret_cast<Version>(::dlsym(library, "fw_version"));
  const std::string release = version == nullptr ? "" : version();
  Dl_info info{};
  const bool known = ::dladdr(reinterpret_cast<void*>(abi_version), &info) != 0;
  return "the component in " + folder() + " needs C ABI " FW_TEXT(FW_ABI_VERSION) +
         " of Farwrite, and this process has loaded Farwrite " + release + ", which has C ABI " +
         std::to_string(found) + ", from " + (known ? info.dli_fname : kFarwrite) + "; " +
         remedy(release);
}

void give_up(const std::string& why) {
  std::fprintf(stderr, "farwrite: gRPC stays on TCP: %s\n", why.c_str());
  const char* const require = std::getenv("FARWRITE_GRPC_REQUIRE");
  if (require == nullptr || *require == '\0') return;
  for (const char* const off : {"0", "false", "no", "off"}) {
    if (::strcasecmp(require, off) == 0) return;
  }
  ::_exit(126);
}

// The component, loaded at the first connection; null if it cannot be.
const Hooks* load() {
  static std::once_flag once;
  std::call_once(once, [] {
    void* const grpc = ::dlopen(kGrpcLibrary, RTLD_LAZY | RTLD_NOLOAD);
    if (grpc == nullptr) {
      return give_up(std::string("this program's gRPC is not ") + kGrpcLibrary +
                     ", the only version that Farwrite knows (1.51)");
    }
    if (const std::string why = misfit(); !why.empty()) return give_up(why);
    void* const component = ::dlopen((folder() + kComponent).c_str(), RTLD_NOW | RTLD_LOCAL);
    void* const function =
        component == nullptr ? nullptr : ::dlsym(component, farwrite::grpc::kHooksFunction);
    if (function == nullptr) return give_up(::dlerror());
    const Hooks* const loaded = reinterpret_cast<farwrite::grpc::HooksFunction>(function)();
    hooks.store(loaded);
    std::atexit([] { hooks.load()->at_exit(); });
  });
  return hooks.load();
}

// Preloaded, it is on from the start.
[[gnu::constructor]] void begin() {
  if (std::getenv("FARWRITE_GRPC_PRELOADED") != nullptr) enabled.store(true);
}

// `farwrite run` asks whether a gRPC that it knows was there: the variable names its descriptor of
// an unnamed file in /proc. It may have ended, and another process may have its number by now.
[[gnu::destructor]] void end() {
  const char* const mark = std::getenv("FARWRITE_GRPC_LOADED");
  if (mark == nullptr || ::dlopen(kGrpcLibrary, RTLD_LAZY | RTLD_NOLOAD) == nullptr) return;
  std::array<char, 64> target{};
  if (::readlink(mark, target.data(), target.size() - 1) < 0) return;
  if (std::strncmp(target.data(), kMark, std::strlen(kMark)) != 0) return;
  if (std::FILE* const file = std::fopen(mark, "w")) {
    std::fputc('1', file);
    std::fclose(file);
  }
}

bool allocate(std::size_t bytes, grpc_slice* slice) {
  const Hooks* const loaded = hooks.load(std::memory_order_acquire);
  return bytes >= kOurSlicesFrom && loaded != nullptr && loaded->slice_malloc(bytes, slice);
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

const char* farwrite_grpc_enable(void) {
  static std::string why;
  using Version = const char* (*)();
  const auto version = reinterpret_cast<Version>(::dlsym(RTLD_DEFAULT, "grpc_version_string"));
  if (version == nullptr || ::dlopen(kGrpcLibrary, RTLD_LAZY | RTLD_NOLOAD) == nullptr) {
    why = std::string("this program does not load ") + kGrpcLibrary;
  } else if (::dlsym(RTLD_DEFAULT, kTcpCreate) !=
             reinterpret_cast<void*>(::dlsym(RTLD_DEFAULT, "farwrite_grpc_tcp_create"))) {
    why = "libgrpc comes before libfarwrite_grpc: name libfarwrite_grpc first when you link";
  } else if (why = misfit(); why.empty()) {
    enabled.store(true);
    return nullptr;
  }
  return why.c_str();
}

void* farwrite_grpc_tcp_create(void* fd, const void* options, PeerText peer) {
  static const auto next = original<TcpCreate>(kTcpCreate);
  const Hooks* const loaded = enabled.load() ? load() : nullptr;
  if (loaded == nullptr) return next(fd, options, peer);
  return loaded->tcp_create(next, fd, options, peer);
}

// grpc_tcp_create() under its C++ name.
[[gnu::alias("farwrite_grpc_tcp_create")]] void*
farwrite_grpc_tcp_create_alias(void* fd, const void* options, PeerText peer) __asm__(
    "_Z15grpc_tcp_createP7grpc_fdRKN9grpc_core15PosixTcpOptionsEN4absl7debian311string_viewE");

grpc_slice grpc_slice_malloc(std::size_t bytes) {
  static const auto next = original<grpc_slice (*)(std::size_t)>("grpc_slice_malloc");
  grpc_slice slice;
  return allocate(bytes, &slice) ? slice : next(bytes);
}

grpc_slice grpc_slice_malloc_large(std::size_t bytes) {
  static const auto next = original<grpc_slice (*)(std::size_t)>("grpc_slice_malloc_large");
  grpc_slice slice;
  return allocate(bytes, &slice) ? slice : next(bytes);
}

// gRPC cuts its data into frames with this one, which gives the whole reference to the rest of a
// cut slice: the front is valid only while the write that has it is not done. Ours may need it
// longer, as it lends the memory to the peer. So the front gets a reference of its own.
void grpc_slice_buffer_move_first_no_ref(grpc_slice_buffer* from, std::size_t bytes,
                                         grpc_slice_buffer* to) {
  using Move = void (*)(grpc_slice_buffer*, std::size_t, grpc_slice_buffer*);
  static const auto next = original<Move>("grpc_slice_buffer_move_first_no_ref");
  static const auto with_reference = original<Move>("grpc_slice_buffer_move_first");
  const Hooks* const loaded = hooks.load(std::memory_order_acquire);
  return loaded == nullptr ? next(from, bytes, to) : with_reference(from, bytes, to);
}

int epoll_wait(int descriptor, epoll_event* events, int most, int timeout) {
  using EpollWait = int (*)(int, epoll_event*, int, int);
  static const auto next = reinterpret_cast<EpollWait>(::dlsym(RTLD_NEXT, "epoll_wait"));
  const Hooks* const loaded = hooks.load(std::memory_order_acquire);
  if (timeout == 0 || loaded == nullptr) return next(descriptor, events, most, timeout);
  return next(descriptor, events, most, loaded->before_sleep() ? 0 : timeout);
}

}  // extern "C"

// grpc_pollset_work()
GrpcStatus farwrite_grpc_pollset_work(void* pollset, void** worker, std::int64_t deadline) __asm__(
    "_Z17grpc_pollset_workP12grpc_pollsetPP19grpc_pollset_workerN9grpc_core9TimestampE");
GrpcStatus farwrite_grpc_pollset_work(void* pollset, void** worker, std::int64_t deadline) {
  using ThreadWork = GrpcStatus (*)(void*, void**, std::int64_t);
  static const auto next = original<ThreadWork>(kPollsetWork);
  const Hooks* const loaded = hooks.load(std::memory_order_acquire);
  if (loaded != nullptr && loaded->before_work(pollset, deadline)) return {};
  return next(pollset, worker, deadline);
}

// grpc_pollset_kick()
GrpcStatus farwrite_grpc_pollset_kick(void* pollset, void* worker) __asm__(
    "_Z17grpc_pollset_kickP12grpc_pollsetP19grpc_pollset_worker");
GrpcStatus farwrite_grpc_pollset_kick(void* pollset, void* worker) {
  static const auto next = original<GrpcStatus (*)(void*, void*)>(kPollsetKick);
  const Hooks* const loaded = hooks.load(std::memory_order_acquire);
  if (loaded != nullptr && worker == nullptr && loaded->has_event(pollset)) return {};
  return next(pollset, worker);
}

#pragma GCC visibility pop
