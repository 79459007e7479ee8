#include "raw_limits.h"

#include <chrono>
#include <cstdint>
#include <cstring>
#include <string>

#include "clock.h"

namespace farwrite::bench {
namespace {

constexpr std::chrono::seconds kTakeTimeout{30};
// Smaller copies are memcpy's, whichever kernel is tried.
constexpr std::uint64_t kLeastKernelBytes = std::uint64_t{16} << 10;
constexpr ErrorContext kWhere{.operation = "bench p2p limit", .peer = {}, .fabric = {}};

}  // namespace

Result<CopyFunction> find_kernel(std::string_view name) {
  if (name.empty()) return probe_copy_kernels().function;
  std::string supported;
  for (const CopyKernel& kernel : copy_kernels()) {
    if (!kernel.supported) continue;
    if (kernel.name == name) return kernel.function;
    supported += " " + std::string(kernel.name);
  }
  return Status::error(StatusCode::kInvalidArgument, kWhere,
                       "no copy kernel " + std::string(name) + " on this processor",
                       "use one of" + supported);
}

RawPath::RawPath(Role role, Stage& stage, const Phase& phase, const SlotMap& map,
                 CopyFunction kernel)
    : role_(role),
      stage_(stage),
      phase_(phase),
      map_(map),
      kernel_(kernel),
      inline_payload_(phase.kind == Kind::kLatency && phase.size == 8),
      echo_(phase.op == Op::kWrite && phase.kind == Kind::kLatency && phase.size < kOneWayBytes) {
  // Counters continue from phase to phase, because a reset would race with the other process.
  for (std::uint32_t lane = 0; lane < phase.lanes; ++lane) {
    cursors_[lane].taken = incoming(lane).produced.load();
  }
}

RawLine& RawPath::outgoing(std::uint32_t lane) const {
  return role_ == Role::kSender ? stage_.to_receiver(lane) : stage_.to_sender(lane);
}

RawLine& RawPath::incoming(std::uint32_t lane) const {
  return role_ == Role::kSender ? stage_.to_sender(lane) : stage_.to_receiver(lane);
}

void RawPath::copy(std::byte* destination, const std::byte* source) const {
  if (phase_.size < kLeastKernelBytes) {
    std::memcpy(destination, source, phase_.size);
  } else {
    kernel_(destination, source, phase_.size);
  }
}

void RawPath::raise(RawLine& line) {
  const std::uint32_t next = line.produced.load(std::memory_order_relaxed) + 1;
  if (!phase_.block) {
    line.produced.store(next, std::memory_order_release);
    return;
  }
  // seq_cst on both sides of the pair (produced, sleeping): this side reads `sleeping`, or the
  // sleeper reads the new `produced`.
  line.produced.store(next);
  if (line.sleeping.load() != 0) {
    line.sleeping.store(0);
    futex_wake(line.produced);
  }
}

Status RawPath::put(std::uint32_t lane, std::uint32_t slot, const std::byte* source) {
  RawLine& line = outgoing(lane);
  if (inline_payload_) {
    std::memcpy(&line.payload, source, sizeof(line.payload));
  } else if (role_ == Role::kSender) {
    copy(stage_.pool() + map_.offset(slot), source);
  } else {
    copy(stage_.echo(), source);
  }
  raise(line);
  return Status();
}

Status RawPath::signal(std::uint32_t lane, std::uint32_t /*slot*/) {
  raise(outgoing(lane));
  return Status();
}

Result<Arrival> RawPath::take(std::uint32_t lane) {
  RawLine& line = incoming(lane);
  Cursor& cursor = cursors_[lane];
  const std::uint32_t before = cursor.taken;
  const auto ready = [&] { return line.produced.load(std::memory_order_acquire) != before; };
  const auto late = [] {
    return Status::error(StatusCode::kDeadlineExceeded, kWhere,
                         "the other process sent nothing for 30 s", "read its own error");
  };
  if (phase_.block) {
    const Deadline deadline(kTakeTimeout);
    while (!ready()) {
      line.sleeping.store(1);
      if (line.produced.load() == before) futex_wait(line.produced, before);
      if (stage_.given_up() || deadline.expired()) return late();
    }
  } else if (!ready()) {
    for (SpinBudget budget(kTakeTimeout); !ready();) {
      if (!budget.spin() || stage_.given_up()) return late();
    }
  }
  ++cursor.taken;
  if (echo_) return Arrival{.lane = lane, .slot = 0};  // a ping-pong stays in one place
  const auto lane_slots = static_cast<std::uint32_t>(map_.slots / phase_.lanes);
  const std::uint32_t slot = cursor.slots_taken * phase_.lanes + lane;
  if (++cursor.slots_taken == lane_slots) cursor.slots_taken = 0;
  return Arrival{.lane = lane, .slot = slot};
}

Status RawPath::fetch(std::uint32_t /*lane*/, std::uint32_t slot, std::byte* destination) {
  copy(destination, stage_.pool() + map_.offset(slot));
  return Status();
}

Result<const std::byte*> RawPath::view(std::uint32_t slot) {
  if (inline_payload_ && phase_.op == Op::kWrite) {
    return reinterpret_cast<const std::byte*>(&incoming(0).payload);
  }
  if (role_ == Role::kSender && echo_) return static_cast<const std::byte*>(stage_.echo());
  return static_cast<const std::byte*>(stage_.pool() + map_.offset(slot));
}

}  // namespace farwrite::bench
