#include "memory/address_range.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstdlib>
#include <string>

#include "core/log.h"

namespace farwrite::memory {
namespace {

constexpr int kReserved = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

}  // namespace

Result<std::shared_ptr<AddressRange>> AddressRange::reserve(std::uint64_t bytes, const char* name) {
  const ErrorContext where{.operation = "reserve address space"};
  constexpr std::uint64_t kMost = std::uint64_t{1} << 56;
  if (bytes == 0 || bytes > kMost) {
    return Status::error(StatusCode::kInvalidArgument, where,
                         std::string(name) + " asks for " + std::to_string(bytes) + " bytes",
                         "ask for at least one byte and no more than the machine can address");
  }
  bytes = (bytes + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
  void* mapped = ::mmap(nullptr, bytes + kHugePageBytes, PROT_NONE, kReserved, -1, 0);
  if (mapped == MAP_FAILED) {
    return Status::system_error(StatusCode::kResourceExhausted, where,
                                std::string(name) + " needs " + std::to_string(bytes) + " bytes",
                                errno, "lower its limit, or raise `ulimit -v`");
  }
  auto* const start = static_cast<std::byte*>(mapped);
  const std::uint64_t misaligned = reinterpret_cast<std::uintptr_t>(start) % kHugePageBytes;
  const std::uint64_t before = misaligned == 0 ? 0 : kHugePageBytes - misaligned;
  if (before != 0) ::munmap(start, before);
  if (before != kHugePageBytes) ::munmap(start + before + bytes, kHugePageBytes - before);
  ::madvise(start + before, bytes, MADV_DONTFORK);
  return std::shared_ptr<AddressRange>(new AddressRange(start + before, bytes));
}

AddressRange::~AddressRange() {
  if (guard_.in_forked_child()) return;
  ::munmap(base_, bytes_);
}

void AddressRange::release(std::byte* at, std::uint64_t bytes) const {
  if (guard_.in_forked_child()) return;
  if (::mmap(at, bytes, PROT_NONE, kReserved | MAP_FIXED, -1, 0) == MAP_FAILED) {
    // The pages stay mapped until the range goes; nobody uses them, but they cost memory.
    core::log(core::LogLevel::kWarning, "a segment's memory cannot be unmapped yet");
    return;
  }
  ::madvise(at, bytes, MADV_DONTFORK);
}

}  // namespace farwrite::memory
