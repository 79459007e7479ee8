#include "strike.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>

namespace injection {
namespace {

Orders* mapped = nullptr;

__attribute__((constructor)) void map_orders() {
  const char* const path = std::getenv("INJECTION_ORDERS");
  if (path == nullptr) return;
  const long file = ::syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC);
  if (file < 0) return;
  void* const memory = ::mmap(nullptr, sizeof(Orders), PROT_READ | PROT_WRITE, MAP_SHARED,
                              static_cast<int>(file), 0);
  ::close(static_cast<int>(file));
  if (memory != MAP_FAILED) mapped = static_cast<Orders*>(memory);
}

struct Range {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
};
constexpr int kRanges = 8;
Range ranges[kRanges];
std::atomic<int> range_count{0};

int note_range(dl_phdr_info* info, std::size_t /*size*/, void* /*data*/) {
  const char* const slash = std::strrchr(info->dlpi_name, '/');
  const char* const file = slash == nullptr ? info->dlpi_name : slash + 1;
  // The templates of the standard library allocate for the caller them.
  bool ours = false;
  for (const char* name : {"libfarwrite.so", "_farwrite.", "libstdc++.so"}) {
    ours = ours || std::strncmp(file, name, std::strlen(name)) == 0;
  }
  if (!ours) return 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0) continue;
    const int at = range_count.load();
    if (at == kRanges) return 1;
    const std::uintptr_t begin = info->dlpi_addr + segment.p_vaddr;
    ranges[at] = {begin, begin + segment.p_memsz};
    range_count.store(at + 1);
  }
  return 0;
}

void strike_now(Plan& plan, const char* name) {
  std::strncpy(plan.where, name, sizeof plan.where - 1);
  ++plan.struck;
  if (plan.action == kKill) {
    ::kill(::getpid(), SIGKILL);
    while (true) ::pause();
  }
}

}  // namespace

Orders* orders() { return mapped; }

bool is_ours(const void* address) {
  static const int found = (::dl_iterate_phdr(note_range, nullptr), range_count.load());
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  for (int i = 0; i < found; ++i) {
    if (at >= ranges[i].begin && at < ranges[i].end) return true;
  }
  return false;
}

bool strike(std::uint32_t kinds, const char* name, Action action) {
  if (mapped == nullptr) return false;
  bool struck = false;
  for (Plan& plan : mapped->plans) {
    if (plan.process == 0 || (plan.kinds & kinds) == 0 || plan.process != ::getpid()) continue;
    const std::uint64_t number = ++plan.counted;
    if (number < plan.first || number > plan.last) continue;
    strike_now(plan, name);
    struck = struck || plan.action == action;
  }
  return struck;
}

}  // namespace injection

extern "C" {

// Orders of the tests. Stops counting when `process` is 0.
void injectionPlan(int at, int process, unsigned kinds, unsigned action, unsigned long first,
                   unsigned long last, unsigned long least) {
  injection::Plan& plan = injection::orders()->plans[at];
  plan.process = 0;
  plan.kinds = kinds;
  plan.action = action;
  plan.first = first;
  plan.last = last;
  plan.least = least;
  plan.counted = 0;
  plan.struck = 0;
  plan.process = process;
}

// Ends the plan, and returns how many calls counted.
unsigned long injectionEnd(int at) {
  injection::orders()->plans[at].process = 0;
  return injection::orders()->plans[at].counted;
}

unsigned long injectionStruck(int at) { return injection::orders()->plans[at].struck; }

const char* injectionWhere(int at) { return injection::orders()->plans[at].where; }

void injectionJumpClock(long seconds) { injection::orders()->clock_jump = seconds; }

// Numbers that one process leaves for another.
void injectionTell(int at, unsigned long value) { injection::orders()->told[at] = value; }
unsigned long injectionTold(int at) { return injection::orders()->told[at]; }
}
