// WarmTargets: which targets of large writes were written a moment ago, so that a cache may still
// hold them.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "memory/copy.h"

namespace farwrite::memory {

// Streaming stores send a large copy to memory, where its reader then fetches it from. That is the
// quickest way for memory that no cache holds, and a detour for the same target again and again.
// Only the past tells the two apart: a target is warm if the bytes written since its last write,
// and its own, fit into the cache of a core. A wrong answer costs time and nothing else, so threads
// that meet here may disturb each other's notes. Thread-safe.
class WarmTargets {
 public:
  // Notes a write of `bytes` that begins at `target`, and says whether the target was warm before.
  bool note(const std::byte* target, std::uint64_t bytes) {
    const std::uint64_t before = written_.fetch_add(bytes, std::memory_order_relaxed);
    LastWrite& last = writes_[index_of(target)];
    const bool known = last.target.load(std::memory_order_relaxed) == target;
    const std::uint64_t since = before - last.written.load(std::memory_order_relaxed);
    last.target.store(target, std::memory_order_relaxed);
    last.written.store(before + bytes, std::memory_order_relaxed);
    return known && bytes <= kCacheBytes && since <= kCacheBytes - bytes;
  }

  // Half of a server core's own cache: the sources lie there, too.
  static constexpr std::uint64_t kCacheBytes = std::uint64_t{1} << 20;

 private:
  struct LastWrite {
    std::atomic<const std::byte*> target{nullptr};
    std::atomic<std::uint64_t> written{0};  // bytes of all writes, up to the last one there
  };
  static constexpr std::size_t kTargets = 16;

  // Neighbouring targets get different ones.
  static std::size_t index_of(const std::byte* target) {
    return reinterpret_cast<std::uintptr_t>(target) / kStreamingCopyBytes % kTargets;
  }

  std::atomic<std::uint64_t> written_{0};
  std::array<LastWrite, kTargets> writes_;
};

}  // namespace farwrite::memory
