// AddressRange: addresses set aside for mappings that must sit side by side.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/fork_guard.h"
#include "farwrite/status.h"

namespace farwrite::memory {

// Segments start at multiples of this, so that a huge page can back them.
inline constexpr std::uint64_t kHugePageBytes = std::uint64_t{2} << 20;

// A reserved stretch of address space (no memory behind it, any access faults). Immutable; thread-safe.
// The destructor unmaps whatever is mapped inside it. A forked child inherits none of it, and there
// the destructor leaves the addresses alone.
class AddressRange {
 public:
  // Reserves `bytes`, rounded up to 2 MiB, at a 2 MiB boundary. `name` goes into the error.
  static Result<std::shared_ptr<AddressRange>> reserve(std::uint64_t bytes, const char* name);
  ~AddressRange();
  AddressRange(const AddressRange&) = delete;
  AddressRange& operator=(const AddressRange&) = delete;

  std::byte* base() const { return base_; }
  std::uint64_t bytes() const { return bytes_; }

  // Drops whatever is mapped over [at, at + bytes) and reserves these addresses again. Does nothing in
  // a forked child, where the addresses may belong to somebody else by now.
  void release(std::byte* at, std::uint64_t bytes) const;

 private:
  AddressRange(std::byte* base, std::uint64_t bytes) : base_(base), bytes_(bytes) {}

  std::byte* const base_;
  const std::uint64_t bytes_;
  const core::ForkGuard guard_;
};

}  // namespace farwrite::memory
