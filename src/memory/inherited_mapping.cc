#include "memory/inherited_mapping.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "core/mutex.h"
#include "memory/background_release.h"
#include "memory/forked_readers.h"

namespace farwrite::memory {
namespace {

// Locked from before a fork until after it. Nothing is allocated under it: see ForkedReaders.
struct MappingList {
  core::Mutex mutex{core::LockRank::kMemory, 1};
  InheritedMapping* first FW_GUARDED_BY(mutex) = nullptr;
};
constinit MappingList list;

}  // namespace

struct ForkHandlers {
  static void before() FW_ACQUIRE(list.mutex) {
    // Descriptors of memory that is going: in a child they would keep its pages.
    wait_for_background_releases();
    list.mutex.lock();
    ForkedReaders::before_fork(list.first != nullptr);
  }

  static void in_parent() FW_RELEASE(list.mutex) {
    ForkedReaders::after_fork_in_parent();
    list.mutex.unlock();
  }

  // Only what is safe after a fork of a process with threads: system calls.
  static void in_child() FW_RELEASE(list.mutex) {
    ForkedReaders::after_fork_in_child();
    for (const InheritedMapping* at = list.first; at != nullptr; at = at->next_) view(*at);
    list.first = nullptr;  // the child's own children inherit private memory as any other
    list.mutex.unlock();
  }

  static void view(const InheritedMapping& mapping) {
    if (mapping.base_ == nullptr) return bear_witness(mapping.fd_);
    // Without a reserve: the child is expected to read, and no commit limit may refuse that.
    void* const viewed = ::mmap(mapping.base_, mapping.bytes_, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, mapping.fd_, 0);
    if (viewed != MAP_FAILED) return;
    warn(
        "farwrite: a forked child cannot map its parent's memory and will crash if it reads that "
        "memory; raise vm.max_map_count or `ulimit -v`\n");
  }

  static void bear_witness(int fd) {
    constexpr std::size_t kWitnessBytes = 4096;
    if (::mmap(nullptr, kWitnessBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) != MAP_FAILED) {
      return;
    }
    warn(
        "farwrite: a forked child cannot show a peer that it lives; if its parent ends first, "
        "arrays in the peer's memory may change in it; raise vm.max_map_count or `ulimit -v`\n");
  }

  static void warn(std::string_view line) {
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
  }
};

namespace {

// While the library is loaded, for the reason that fork_guard.cc gives.
[[gnu::constructor]] void handle_forks() {
  if (::pthread_atfork(ForkHandlers::before, ForkHandlers::in_parent, ForkHandlers::in_child) ==
      0) {
    return;
  }
  std::fputs(
      "farwrite: pthread_atfork failed for lack of memory, so children could not inherit arrays\n",
      stderr);
  std::abort();
}

}  // namespace

InheritedMapping::InheritedMapping(std::byte* base, std::uint64_t bytes, int fd)
    : base_(base), bytes_(bytes), fd_(fd) {
  const core::Lock lock(list.mutex);
  next_ = list.first;
  if (next_ != nullptr) next_->previous_ = this;
  list.first = this;
}

bool InheritedMapping::find(const std::byte* address,
                            const std::function<void(const InheritedMapping&)>& use) {
  const core::Lock lock(list.mutex);
  for (const InheritedMapping* at = list.first; at != nullptr; at = at->next_) {
    if (at->base_ == nullptr || address < at->base_ || address >= at->base_ + at->bytes_) continue;
    use(*at);
    return true;
  }
  return false;
}

InheritedMapping::~InheritedMapping() {
  if (guard_.in_forked_child()) return;  // the list is the child's own
  const core::Lock lock(list.mutex);
  if (next_ != nullptr) next_->previous_ = previous_;
  (previous_ != nullptr ? previous_->next_ : list.first) = next_;
  if (list.first == nullptr) ForkedReaders::forget_all();
}

}  // namespace farwrite::memory
