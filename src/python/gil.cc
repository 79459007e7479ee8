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
// The thread that closed the gate finalizes the interpreter, and goes on using Python.
std::thread::id finalizing_thread;

bool enter_gate() {
  std::uint64_t seen = gate.load(std::memory_order_acquire);
  do {
    if ((seen & kClosed) != 0) return false;
  } while (!gate.compare_exchange_weak(seen, seen + 1, std::memory_order_acq_rel));
  return true;
}

void leave_gate() { gate.fetch_sub(1, std::memory_order_acq_rel); }

bool must_not_return_to_python() {
  return (gate.load(std::memory_order_acquire) & kClosed) != 0 &&
         std::this_thread::get_id() != finalizing_thread;
}

}  // namespace

GilRelease::~GilRelease() {
  while (must_not_return_to_python()) ::pause();
  PyEval_RestoreThread(state_);
}

GilHold::GilHold() : held_(enter_gate()) {
  if (held_) state_ = PyGILState_Ensure();
}

GilHold::~GilHold() {
  if (!held_) return;
  PyGILState_Release(state_);
  leave_gate();
}

void close_gate() {
  finalizing_thread = std::this_thread::get_id();
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
