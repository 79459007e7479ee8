// RawPath: the physical limit of moving bytes between two processes. It has the same five calls as
// FarwritePath, so that both run in the same measuring loops.
//
// A transfer is a copy into the shared pool by one copy kernel, and a release store of a counter.
// The consumer polls that counter, or sleeps on it with a futex. There are no checks, no counters
// and no names.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "farwrite/copy.h"
#include "farwrite/status.h"
#include "phase.h"
#include "stage.h"

namespace farwrite::bench {

// The result of take(): the slot that the peer filled or returned, and its lane.
struct Arrival {
  std::uint32_t lane = 0;
  std::uint32_t slot = 0;
};

// Finds a copy kernel by name. An empty `name` means the kernel that Farwrite chose.
Result<CopyFunction> find_kernel(std::string_view name);

// One per process and phase. put, signal, take and fetch may be called by one thread per lane.
class RawPath {
 public:
  RawPath(Role role, Stage& stage, const Phase& phase, const SlotMap& map, CopyFunction kernel);

  // Copies `size` bytes to slot `slot` of the other side's memory, then signals.
  Status put(std::uint32_t lane, std::uint32_t slot, const std::byte* source);
  // Signals `slot` to the other side without moving bytes.
  Status signal(std::uint32_t lane, std::uint32_t slot);
  // Waits for the other side's next put or signal on `lane`.
  Result<Arrival> take(std::uint32_t lane);
  // Copies slot `slot` of the sender's memory to `destination`.
  Status fetch(std::uint32_t lane, std::uint32_t slot, std::byte* destination);
  // Returns the bytes of `slot`: landed bytes, or the sender's own memory for kAlias.
  Result<const std::byte*> view(std::uint32_t slot);

 private:
  void raise(RawLine& line);
  RawLine& outgoing(std::uint32_t lane) const;
  RawLine& incoming(std::uint32_t lane) const;
  void copy(std::byte* destination, const std::byte* source) const;

  Role role_;
  Stage& stage_;
  const Phase& phase_;
  const SlotMap& map_;
  CopyFunction kernel_;
  bool inline_payload_;  // 8 bytes travel in the counter's own cache line
  bool echo_;            // kLatency by ping-pong: the answer also carries bytes

  // One cache line each, because lanes belong to different threads.
  struct alignas(128) Cursor {
    std::uint32_t taken = 0;
    std::uint32_t slots_taken = 0;
  };
  std::array<Cursor, kMaxLanes> cursors_;
};

}  // namespace farwrite::bench
