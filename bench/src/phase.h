// Phase and Outcome: one measuring loop that two processes run together, and one process's figures.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace farwrite::bench {

enum class Role : std::uint8_t { kSender, kReceiver };

enum class Op : std::uint8_t {
  kWrite,   // the sender writes into the receiver's memory and raises a notification
  kRead,    // the receiver reads the sender's memory; the sender does nothing
  kNotify,  // the sender raises a notification without bytes
  kAlias,   // the sender raises a notification; the receiver reads the sender's memory in place
};

enum class Kind : std::uint8_t {
  kLatency,    // one transfer at a time
  kBandwidth,  // `window` transfers per lane under way
  kVerify,     // as kBandwidth, but every transfer is stamped anew and every stamp is checked
};

struct Phase {
  Op op = Op::kWrite;
  Kind kind = Kind::kBandwidth;
  bool limit = false;  // run the raw loop instead of Farwrite
  bool touch = true;   // kBandwidth: the receiver reads every byte before it returns the slot
  bool block =
      false;  // limit: sleep on a futex instead of polling (Farwrite's is DeviceOptions::spin)
  std::uint64_t size = 8;       // bytes of one transfer, a multiple of 8
  std::uint64_t transfers = 1;  // in all lanes; a multiple of `lanes`
  std::uint64_t seed = 0;       // makes the payloads of two phases differ
  std::uint32_t lanes = 1;      // threads in each process; kLatency uses only lane 0
  std::uint32_t window = 1;     // per lane
  std::string kernel;           // limit: the copy kernel; empty: the one that copy_bytes() uses
};

struct Outcome {
  double seconds = 0;               // from the first transfer to the last answer, in this process
  double cpu_seconds = 0;           // user and system, all threads of this process
  std::uint64_t bad = 0;            // transfers with wrong bytes
  std::vector<double> samples_us;   // kLatency, in the process that measures it
  std::uint64_t copies = 0;         // passes over payload bytes by this process
  std::uint64_t registrations = 0;  // segments registered during the loop
};

// From this size on one transfer is long enough to be timed alone, by the clock that both processes
// share. Below it, the latency is half of a ping-pong.
inline constexpr std::uint64_t kOneWayBytes = std::uint64_t{1} << 20;

// Whether a latency phase is a ping-pong with bytes in both directions.
inline bool echoes(const Phase& phase) {
  return phase.op == Op::kWrite && phase.size < kOneWayBytes;
}

// Whether a latency phase times single transfers by the clock that both processes share.
inline bool times_one_way(const Phase& phase) {
  return phase.op == Op::kAlias || (phase.op == Op::kWrite && !echoes(phase));
}

// The places of transfers: `slots` places of `size` bytes in the pool that the peer reaches. The
// transfers rotate over them, so that every transfer uses memory that no cache holds. The buffer of
// the other side is half as large, because both and the pool of the raw loop must fit into the
// machine's memory. Two slots therefore share one place there.
struct SlotMap {
  static constexpr std::uint64_t kMaxSlots = std::uint64_t{1} << 18;

  std::uint64_t stride = 0;
  std::uint64_t slots = 0;
  std::uint64_t side_slots = 0;

  SlotMap(const Phase& phase, std::uint64_t pool_bytes, std::uint64_t side_bytes)
      : stride((phase.size + 63) / 64 * 64) {
    slots = std::min(pool_bytes / stride, kMaxSlots) / phase.lanes * phase.lanes;
    side_slots = std::min(side_bytes / stride, slots);
  }
  std::uint64_t offset(std::uint64_t slot) const { return slot * stride; }
  std::uint64_t side_offset(std::uint64_t slot) const { return slot % side_slots * stride; }
};

}  // namespace farwrite::bench
