// OneAtATime: a loop that any thread may ask for and that one thread at a time runs.
#pragma once

#include <atomic>
#include <cstdint>

namespace farwrite::stream {

// A call that comes while another thread is at it, or from inside the body, returns at once; the
// running thread then goes round again. So the body may hold no lock while it calls out.
class OneAtATime {
 public:
  template <typename Body>
  void run(Body body) {
    if (asked_.fetch_add(1, std::memory_order_acq_rel) != 0) return;
    for (std::uint32_t seen = 1;;) {
      body();
      // What was asked for since `seen` was read needs another round.
      std::uint32_t expected = seen;
      if (asked_.compare_exchange_strong(expected, 0, std::memory_order_acq_rel)) return;
      seen = expected;
    }
  }

 private:
  std::atomic<std::uint32_t> asked_{0};
};

}  // namespace farwrite::stream
