#include "memory/address_range.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>

#include "core/log.h"
#include "core/mutex.h"

namespace farwrite::memory {
namespace {

constexpr int kReserved = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

}  // namespace

Result<std::shared_ptr<AddressRange>> AddressRange::reserve(std::uint64_t bytes,
                                                            const std::string& name,
                                                            bool spacious) {
  const ErrorContext where{.operation = "reserve address space"};
  constexpr std::uint64_t kMost = std::uint64_t{1} << 47;
  if (bytes == 0 || bytes > kMost) {
    return Status::error(StatusCode::kInvalidArgument, where,
                         "'" + name + "' asks for " + std::to_string(bytes) + " bytes",
                         "ask for 1 byte to 128 TiB");
  }
  bytes = round_to_huge_pages(bytes);
  const std::uint64_t limit = bytes;
  if (spacious && bytes <= kMost / 2) bytes *= 2;
  void* mapped = ::mmap(nullptr, bytes + kHugePageBytes, PROT_NONE, kReserved, -1, 0);
  if (mapped == MAP_FAILED && bytes > limit) {
    bytes = limit;
    mapped = ::mmap(nullptr, bytes + kHugePageBytes, PROT_NONE, kReserved, -1, 0);
  }
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
  return std::shared_ptr<AddressRange>(new AddressRange(start + before, bytes, limit));
}

AddressRange::AddressRange(std::byte* base, std::uint64_t bytes, std::uint64_t limit)
    : base_(base), bytes_(bytes), limit_(limit), claimed_(bytes / kHugePageBytes, false) {}

AddressRange::~AddressRange() {
  if (!guard_.in_forked_child()) ::munmap(base_, bytes_);
}

AddressRange::Gap AddressRange::find_gap(std::uint64_t wanted_chunks) const {
  const std::uint64_t most = std::min(wanted_chunks, limit_ / kHugePageBytes - claimed_chunks_);
  Gap best;
  for (std::uint64_t at = 0; at < claimed_.size() && best.chunks < most;) {
    std::uint64_t end = at;
    while (end < claimed_.size() && !claimed_[end] && end - at < most) ++end;
    if (end - at > best.chunks) best = {.at = at, .chunks = end - at};
    at = end + 1;
  }
  return best;
}

std::uint64_t AddressRange::largest_gap() const {
  const core::Lock lock(mutex_);
  return find_gap(claimed_.size()).chunks * kHugePageBytes;
}

std::shared_ptr<AddressRange::Slice> AddressRange::claim(const std::shared_ptr<AddressRange>& range,
                                                         std::uint64_t needed,
                                                         std::uint64_t wanted) {
  const core::Lock lock(range->mutex_);
  const Gap gap = range->find_gap(wanted / kHugePageBytes);
  if (gap.chunks == 0 || gap.chunks * kHugePageBytes < needed) return nullptr;
  std::fill_n(range->claimed_.begin() + static_cast<std::ptrdiff_t>(gap.at), gap.chunks, true);
  range->claimed_chunks_ += gap.chunks;
  return std::make_shared<Slice>(range, range->base_ + gap.at * kHugePageBytes,
                                 gap.chunks * kHugePageBytes);
}

void AddressRange::give_back(std::byte* at, std::uint64_t bytes) {
  if (guard_.in_forked_child()) return;
  if (::mmap(at, bytes, PROT_NONE, kReserved | MAP_FIXED, -1, 0) == MAP_FAILED) {
    // Stays claimed: better to lose the addresses than to map over memory in use.
    core::log(core::LogLevel::kWarning, "a memory segment cannot be unmapped");
    return;
  }
  ::madvise(at, bytes, MADV_DONTFORK);
  const core::Lock lock(mutex_);
  const auto first = (at - base_) / static_cast<std::ptrdiff_t>(kHugePageBytes);
  std::fill_n(claimed_.begin() + first, bytes / kHugePageBytes, false);
  claimed_chunks_ -= bytes / kHugePageBytes;
}

}  // namespace farwrite::memory
