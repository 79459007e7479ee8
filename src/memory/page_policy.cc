#include "memory/page_policy.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <string>

namespace farwrite::memory {
namespace {

// Since Linux 5.14; older C libraries do not name them.
constexpr int kMadvPopulateRead = 22;
constexpr int kMadvPopulateWrite = 23;
constexpr int kMpolPreferred = 1;
constexpr int kMpolBind = 2;
constexpr int kMostNodes = 1024;  // the kernel's own upper bound, MAX_NUMNODES

// The word in [brackets], the kernel's way of showing the active choice.
std::string active_choice(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  const std::size_t open = line.find('[');
  const std::size_t close = line.find(']');
  if (open == std::string::npos || close == std::string::npos || close < open) return {};
  return line.substr(open + 1, close - open - 1);
}

void touch_every_page(std::byte* base, std::uint64_t bytes) {
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  for (std::uint64_t at = 0; at < bytes; at += page) {
    *const_cast<volatile std::byte*>(base + at) = std::byte{0};
  }
}

}  // namespace

bool transparent_huge_pages_for_shared_memory() {
  static const bool allowed = [] {
    const std::string any = active_choice("/sys/kernel/mm/transparent_hugepage/shmem_enabled");
    const std::string two_mib = active_choice(
        "/sys/kernel/mm/transparent_hugepage/hugepages-2048kB/shmem_enabled");  // Linux 6.10
    const std::string& choice = two_mib.empty() || two_mib == "inherit" ? any : two_mib;
    return !choice.empty() && choice != "never" && choice != "deny";
  }();
  return allowed;
}

Status place_on_node(std::byte* base, std::uint64_t bytes, const NumaPlacement& placement) {
  const ErrorContext where{.operation = "bind memory to NUMA node"};
  const int node = placement.node;
  if (node == -1) return {};
  if (node < 0 || node >= kMostNodes) {
    return Status::error(StatusCode::kInvalidArgument, where,
                         "there is no node " + std::to_string(node),
                         "use a node that `lscpu` lists, or -1 for the kernel's choice");
  }
  constexpr int kBits = static_cast<int>(8 * sizeof(unsigned long));
  std::array<unsigned long, kMostNodes / kBits> nodes{};
  nodes[static_cast<std::size_t>(node / kBits)] = 1UL << (node % kBits);
  const int mode = placement.required ? kMpolBind : kMpolPreferred;
  // The kernel reads one bit less than it is told.
  if (::syscall(SYS_mbind, base, bytes, mode, nodes.data(), kMostNodes + 1, 0) == 0) return {};
  const char* remedy = "use a node that `lscpu` lists, or -1 for the kernel's choice";
  if (errno == EPERM) remedy = "allow mbind(2) in the container's seccomp profile, or use -1";
  if (errno == ENOSYS) remedy = "this kernel has no NUMA support; use -1";
  return Status::system_error(StatusCode::kUnsupported, where,
                              "the kernel refuses node " + std::to_string(node), errno, remedy);
}

Status check_placement(const NumaPlacement& placement) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* const memory = ::mmap(nullptr, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return Status::system_error(StatusCode::kResourceExhausted,
                                {.operation = "bind memory to NUMA node"}, "mmap(2) failed", errno,
                                "free memory, or raise `ulimit -v` and vm.max_map_count");
  }
  Status placed = place_on_node(static_cast<std::byte*>(memory), page, placement);
  (void)::munmap(memory, page);
  return placed;
}

Status populate_for_writing(std::byte* base, std::uint64_t bytes) {
  int result = 0;
  do {
    result = ::madvise(base, bytes, kMadvPopulateWrite);
  } while (result != 0 && (errno == EINTR || errno == EAGAIN));
  if (result == 0) return {};
  if (errno == EINVAL) {  // Linux before 5.14
    touch_every_page(base, bytes);
    return {};
  }
  return Status::system_error(StatusCode::kResourceExhausted, {.operation = "prefault memory"},
                              "the kernel cannot back " + std::to_string(bytes) + " bytes", errno,
                              "free memory, raise the cgroup's limit, or set prefault to false");
}

void populate_for_reading(std::byte* base, std::uint64_t bytes) {
  (void)::madvise(base, bytes, kMadvPopulateRead);
}

void drop_from_mapping(std::byte* base, std::uint64_t bytes) {
  constexpr std::uint64_t kStep = std::uint64_t{8} << 20;
  for (std::uint64_t at = 0; at < bytes; at += kStep) {
    // A refusal, as for locked pages, leaves them to the unmapping.
    (void)::madvise(base + at, std::min(kStep, bytes - at), MADV_DONTNEED);
  }
}

}  // namespace farwrite::memory
