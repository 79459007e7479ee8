// Quota: a byte budget that several arenas may share, per peer or per direction.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

namespace farwrite::memory {

// Thread-safe. Sending and receiving get separate quotas, so that one cannot starve the other.
class Quota {
 public:
  Quota(std::string name, std::uint64_t limit_bytes)
      : name_(std::move(name)), limit_(limit_bytes) {}
  Quota(const Quota&) = delete;
  Quota& operator=(const Quota&) = delete;

  // Whether a charge would pass now; a hint, since other threads may charge in between.
  bool fits(std::uint64_t bytes) const { return bytes <= limit_ - in_use(); }

  // Takes `bytes` of the budget, or counts a refusal and takes nothing.
  [[nodiscard]] bool try_charge(std::uint64_t bytes) {
    std::uint64_t used = in_use_.load(std::memory_order_relaxed);
    do {
      if (bytes > limit_ - used) {
        refusals_.fetch_add(1, std::memory_order_relaxed);
        return false;
      }
    } while (!in_use_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
    std::uint64_t peak = peak_.load(std::memory_order_relaxed);
    while (peak < used + bytes &&
           !peak_.compare_exchange_weak(peak, used + bytes, std::memory_order_relaxed)) {
    }
    return true;
  }

  // Gives back bytes taken by try_charge.
  void release(std::uint64_t bytes) { in_use_.fetch_sub(bytes, std::memory_order_relaxed); }

  std::uint64_t in_use() const { return in_use_.load(std::memory_order_relaxed); }
  std::uint64_t peak() const { return peak_.load(std::memory_order_relaxed); }
  std::uint64_t limit() const { return limit_; }
  std::uint64_t refusals() const { return refusals_.load(std::memory_order_relaxed); }
  const std::string& name() const { return name_; }

 private:
  const std::string name_;
  const std::uint64_t limit_;
  std::atomic<std::uint64_t> in_use_{0};
  std::atomic<std::uint64_t> peak_{0};
  std::atomic<std::uint64_t> refusals_{0};
};

}  // namespace farwrite::memory
