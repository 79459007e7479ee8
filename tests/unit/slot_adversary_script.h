// A random life of one edge over a simulated network: grants, pushes, offers, views, aborts, with
// the rules of slots checked at every step. One thread drives it, so a seed is a run.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "memory/segment.h"
#include "simulated/simulated_network.h"

namespace farwrite::transfer {

// The rules that a run can break.
enum class SlotViolation {
  kTorn,         // a tensor was received before all of it was there
  kViewChanged,  // bytes changed under a living view
  kOrder,        // tensors came out of order, or twice
  kAborted,      // a tensor was received that was sent before the abort arrived
  kWrongTensor,  // other bytes than those of the tensor that was offered
  kUnbalanced,   // a credit was lost or came back twice, or a tensor was lost
  kNeverEnding,  // the run never came to rest
};

// What is wrong on purpose. All but kNone are test doubles of mistakes that could really be made.
enum class SlotMistake {
  kNone,
  kFlagBeforeData,        // the fabric tells of a write before its bytes are there
  kTailFlagWithoutOrder,  // a tail flag on a fabric that promises no order within a write
  kEarlyAcknowledgement,  // a flush is done before the writes it waits for
  kCreditTooSoon,      // a slot is granted again when its tensor is taken, not when it is dropped
  kCreditTwice,        // an abort gives credits for slots that have been written, too
  kNoGenerationCheck,  // late pushes of an earlier grant are taken for tensors
  kNoRoundCheck,       // and late offers
  kStaleEpoch,         // offers of an earlier start of the peer are taken
};

// How pushes are told; the correct ones must hold all of them.
enum class SlotPath { kImmediate, kFlushAndMessage, kTailFlag };

struct SlotRun {
  std::set<SlotViolation> violations;
  std::vector<std::string> details;
  fabric::Trace trace;
  std::uint64_t pushed = 0, offered = 0, stale = 0, resets = 0;  // that the run was not empty
};

// Memory that runs share, because mapping takes longer than a run.
struct SlotMemory {
  SlotMemory();
  std::shared_ptr<memory::Segment> landing, shown;
};

SlotRun run_slots(std::uint64_t seed, SlotPath path, SlotMistake mistake, SlotMemory& memory);

}  // namespace farwrite::transfer
