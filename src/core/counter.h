// Counter: a statistic that any thread may add to.
#pragma once

#include <atomic>
#include <cstdint>

namespace farwrite::core {

// Relaxed: a reader sees some recent value, and the counter orders nothing else. Thread-safe.
class Counter {
 public:
  void add(std::uint64_t n = 1) { value_.fetch_add(n, std::memory_order_relaxed); }
  // Of a gauge: what add() has counted is over.
  void remove(std::uint64_t n) { value_.fetch_sub(n, std::memory_order_relaxed); }
  std::uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

}  // namespace farwrite::core
