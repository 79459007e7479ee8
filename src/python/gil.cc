#include "python/gil.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

namespace farwrite::python {
namespace {

constexpr std::uint64_t kClosed = std::uint64_t{1} << 63;

// The top bit says closed, the rest counts the threads inside.
constinit std::atomic<std::uint64_t> gate{0};

bool enter_gate() {
  std::uint64_t seen = gate.load(std::memory_order_acquire);
  do {
    if ((seen & kClosed) != 0) return false;
  } while (!gate.compare_exchange_weak(seen, seen + 1, std::memory_order_acq_rel));
  return true;
}

void leave_gate() { gate.fetch_sub(1, std::memory_order_acq_rel); }

}  // namespace

void sleep_until_exit() {
  while (true) ::pause();
}

GilHold::GilHold() : held_(enter_gate()) {
  if (held_) state_ = outlive_python([] { return PyGILState_Ensure(); });
}

GilHold::~GilHold() {
  if (!held_) return;
  outlive_python([&] { PyGILState_Release(state_); });
  leave_gate();
}

void close_gate() {
  gate.fetch_or(kClosed, std::memory_order_acq_rel);
  // A callback that never returns must not keep the process from ending.
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  without_gil([&] {
    while (gate.load(std::memory_order_acquire) != kClosed &&
           std::chrono::steady_clock::now() < give_up) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
}

}  // namespace farwrite::python
