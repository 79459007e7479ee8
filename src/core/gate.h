// Gate: lets operations through until it is closed, and tells when the last one has left.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/deadline.h"
#include "core/poll_until.h"

namespace farwrite::core {

// What stands between a close() and the operations that other threads have under way. Thread-safe;
// entering and leaving are one atomic addition each.
class Gate {
 public:
  // Holds the gate for one operation; false if it was closed already.
  class Pass {
   public:
    explicit Pass(Gate& gate) : gate_(gate), entered_(gate.enter()) {}
    ~Pass() {
      if (entered_) gate_.leave();
    }
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;
    explicit operator bool() const { return entered_; }

   private:
    Gate& gate_;
    const bool entered_;
  };

  void close() { word_.fetch_or(kClosed); }
  bool closed() const { return (word_.load() & kClosed) != 0; }

  // Waits until every operation that entered before close() has left; false when the deadline
  // passes first.
  bool wait_until_empty(Deadline deadline) {
    return poll_until([this] { return word_.load() == kClosed; }, deadline);
  }

 private:
  static constexpr std::uint64_t kClosed = std::uint64_t{1} << 63;

  bool enter() {
    if ((word_.fetch_add(1) & kClosed) == 0) return true;
    leave();
    return false;
  }
  void leave() { word_.fetch_sub(1); }

  std::atomic<std::uint64_t> word_{0};
};

}  // namespace farwrite::core
