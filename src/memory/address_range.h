// AddressRange: addresses set aside for mappings that must sit side by side, and slices of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/fork_guard.h"
#include "core/mutex.h"
#include "farwrite/status.h"

namespace farwrite::memory {

// Slices start at multiples of this, so that a huge page can back them.
inline constexpr std::uint64_t kHugePageBytes = std::uint64_t{2} << 20;

constexpr std::uint64_t round_to_huge_pages(std::uint64_t bytes) {
  return (bytes + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
}

// A reserved stretch of address space: no memory behind it, any access faults. Thread-safe. Lives
// as long as its owner or any slice of it. A forked child inherits none of it but its views of
// segments. The destructors leave the addresses alone there: they hold a view, or may belong to
// something else by then.
class AddressRange {
 public:
  class Slice;

  // Reserves addresses for slices of `bytes` in all, rounded up to 2 MiB. `name` goes into the
  // error. With `spacious` twice as many addresses, if the system has them: then a slice also fits
  // where the bytes that are left lie between others.
  static Result<std::shared_ptr<AddressRange>> reserve(std::uint64_t bytes, const std::string& name,
                                                       bool spacious = false);
  ~AddressRange();
  AddressRange(const AddressRange&) = delete;
  AddressRange& operator=(const AddressRange&) = delete;

  std::byte* base() const { return base_; }
  // Of the addresses.
  std::uint64_t bytes() const { return bytes_; }
  // Of all slices at once.
  std::uint64_t limit() const { return limit_; }
  // The largest slice that claim() would make now.
  std::uint64_t largest_gap() const;

  // Claims `wanted` contiguous bytes if they are there, else the largest gap of at least `needed`;
  // nullptr if there is none, or the limit leaves less. Both are multiples of 2 MiB. Nothing else
  // gets these addresses until the slice goes.
  static std::shared_ptr<Slice> claim(const std::shared_ptr<AddressRange>& range,
                                      std::uint64_t needed, std::uint64_t wanted);

 private:
  struct Gap {
    std::uint64_t at = 0;
    std::uint64_t chunks = 0;
  };

  AddressRange(std::byte* base, std::uint64_t bytes, std::uint64_t limit);
  // With mutex_. The first gap of so many chunks, or the largest one.
  Gap find_gap(std::uint64_t wanted_chunks) const FW_REQUIRES(mutex_);
  void give_back(std::byte* at, std::uint64_t bytes);

  std::byte* const base_;
  const std::uint64_t bytes_;
  const std::uint64_t limit_;
  const core::ForkGuard guard_;
  mutable core::Mutex mutex_{core::LockRank::kMemory};
  std::vector<bool> claimed_ FW_GUARDED_BY(mutex_);  // by 2 MiB
  std::uint64_t claimed_chunks_ FW_GUARDED_BY(mutex_) = 0;
};

// Exclusive right to map memory at some addresses of a range. Immutable. The destructor unmaps what
// was mapped there.
class AddressRange::Slice {
 public:
  Slice(std::shared_ptr<AddressRange> range, std::byte* base, std::uint64_t bytes)
      : range_(std::move(range)), base_(base), bytes_(bytes) {}
  ~Slice() { range_->give_back(base_, bytes_); }
  Slice(const Slice&) = delete;
  Slice& operator=(const Slice&) = delete;

  std::byte* base() const { return base_; }
  std::uint64_t bytes() const { return bytes_; }

 private:
  const std::shared_ptr<AddressRange> range_;
  std::byte* const base_;
  const std::uint64_t bytes_;
};

}  // namespace farwrite::memory
