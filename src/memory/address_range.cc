#include "memory/address_range.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>

#include "core/log.h"

namespace farwrite::memory {
namespace {

constexpr int kReserved = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

}  // namespace

Result<std::shared_ptr<AddressRange>> AddressRange::reserve(std::uint64_t bytes,
                                                            const std::string& name) {
  const ErrorContext where{.operation = "reserve address space"};
  constexpr std::uint64_t kMost = std::uint64_t{1} << 47;
  if (bytes == 0 || bytes > kMost) {
    return Status::error(StatusCode::kInvalidArgument, where,
                         "'" + name + "' asks for " + std::to_string(bytes) + " bytes",
                         "ask for 1 byte to 128 TiB");
  }
  bytes = round_to_huge_pages(bytes);
  void* mapped = ::mmap(nullptr, bytes + kHugePageBytes, PROT_NONE, kReserved, -1, 0);
  if (mapped == MAP_FAILED) {
    return Status::system_error(StatusCode::kResourceExhausted, where,
                                "'" + name + "' needs " + std::to_string(bytes) + " bytes", errno,
                                "lower its limit, or raise `ulimit -v`");
  }
  auto* const start = static_cast<std::byte*>(mapped);
  const std::uint64_t misaligned = reinterpret_cast<std::uintptr_t>(start) % kHugePageBytes;
  const std::uint64_t before = misaligned == 0 ? 0 : kHugePageBytes - misaligned;
  if (before != 0) ::munmap(start, before);
  ::munmap(start + before + bytes, kHugePageBytes - before);
  ::madvise(start + before, bytes, MADV_DONTFORK);
  return std::shared_ptr<AddressRange>(new AddressRange(start + before, bytes));
}

AddressRange::AddressRange(std::byte* base, std::uint64_t bytes)
    : base_(base), bytes_(bytes), claimed_(bytes / kHugePageBytes, false) {}

AddressRange::~AddressRange() {
  if (!guard_.in_forked_child()) ::munmap(base_, bytes_);
}

std::shared_ptr<AddressRange::Slice> AddressRange::claim(const std::shared_ptr<AddressRange>& range,
                                                         std::uint64_t needed,
                                                         std::uint64_t wanted) {
  std::vector<bool>& claimed = range->claimed_;
  const std::uint64_t wanted_chunks = wanted / kHugePageBytes;
  const std::lock_guard lock(range->mutex_);
  std::uint64_t best_at = 0;
  std::uint64_t best_chunks = 0;
  for (std::uint64_t at = 0; at < claimed.size() && best_chunks < wanted_chunks;) {
    std::uint64_t end = at;
    while (end < claimed.size() && !claimed[end] && end - at < wanted_chunks) ++end;
    if (end - at > best_chunks) {
      best_at = at;
      best_chunks = end - at;
    }
    at = end + 1;
  }
  if (best_chunks == 0 || best_chunks * kHugePageBytes < needed) return nullptr;
  std::fill_n(claimed.begin() + static_cast<std::ptrdiff_t>(best_at), best_chunks, true);
  return std::make_shared<Slice>(range, range->base_ + best_at * kHugePageBytes,
                                 best_chunks * kHugePageBytes);
}

void AddressRange::give_back(std::byte* at, std::uint64_t bytes) {
  if (guard_.in_forked_child()) return;
  if (::mmap(at, bytes, PROT_NONE, kReserved | MAP_FIXED, -1, 0) == MAP_FAILED) {
    // Stays claimed: better to lose the addresses than to map over memory in use.
    core::log(core::LogLevel::kWarning, "a memory segment cannot be unmapped");
    return;
  }
  ::madvise(at, bytes, MADV_DONTFORK);
  const std::lock_guard lock(mutex_);
  const auto first = (at - base_) / static_cast<std::ptrdiff_t>(kHugePageBytes);
  std::fill_n(claimed_.begin() + first, bytes / kHugePageBytes, false);
}

}  // namespace farwrite::memory
