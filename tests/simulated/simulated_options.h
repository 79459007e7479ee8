// SimulatedOptions: how cruel the simulated network is.
#pragma once

#include <cstdint>
#include <string_view>

namespace farwrite::fabric {

// How notifications, flushes and revocations are made of the wire's packets. All but kCorrect are
// test doubles: each is a mistake that a fabric could really make, and exists to show that the
// tests catch it. Nothing but a test may choose one.
enum class Lowering : std::uint8_t {
  kCorrect,
  kNotificationBeforeData,  // does not wait for the bytes of its write
  kTailFlag,     // takes the write's last byte for its end, though the wire keeps no order in it
  kUnsequenced,  // shows notifications as the wire brings them: reordered and duplicated
  kEarlyFlush,   // a flush waits for itself only, not for the writes before it
  kLateBytes,    // a revocation does not stop what is already on the wire
  kUnfetchedSource,  // says local_complete and still reads the source
};

std::string_view to_string(Lowering lowering);

// Probabilities are 0 to 0.9, and are cut to that: at 1 nothing would ever arrive.
struct SimulatedOptions {
  std::uint64_t seed = 1;
  Lowering lowering = Lowering::kCorrect;

  // A write or read crosses the wire in chunks of so many bytes.
  std::uint64_t min_chunk_bytes = 1;
  std::uint64_t max_chunk_bytes = std::uint64_t{64} << 10;

  double delay = 0.2;      // a packet whose turn has come is put back
  double drop = 0.1;       // a notification packet is lost; its sender sends it again
  double duplicate = 0.1;  // a notification packet arrives once more, at some later time
  // A write is local_complete before its bytes land, as with a card that has fetched them.
  double early_completion = 0.5;

  // What the fabric says it can do. Without an immediate, a write that notifies is refused.
  bool has_immediate = true;
  bool whole_message_order = false;  // the chunks of one write land in order, the last word whole

  std::uint32_t deliveries_per_poll = 16;  // packets that one poll() moves at most
};

}  // namespace farwrite::fabric
