// A random conversation of two links over a simulated network, with the contract checked at every
// step. One thread drives it, so a seed is a run.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "simulated/simulated_network.h"

namespace farwrite::fabric {

// The sentences of the contract that a run can break.
enum class Violation {
  kTorn,         // a notification was taken before every byte of its write was there
  kLaneOrder,    // a notification came before an earlier one of its lane
  kTwice,        // a notification came again
  kMissing,      // a notification never came, or one came that nothing raised
  kEarlyFlush,   // a flush was done before an earlier write had landed
  kLateByte,     // memory changed after its key was revoked
  kSourceInUse,  // bytes were taken from a source that had been declared free
  kWrongRead,    // a read brought other bytes than the peer's
  kNeverEnding,  // an operation never ended
};

struct ScriptResult {
  std::set<Violation> violations;
  std::vector<std::string> details;
  Trace trace;
};

// How the run ends.
enum class Ending {
  kDrained,  // everything posted is delivered
  kKilled,   // side 0 is killed half-way
  kRevoked,  // side 0 revokes its memory half-way, and goes on
  kClosed,   // the same, and it ends its link
};

ScriptResult run_script(std::uint64_t seed, Lowering lowering, Ending ending = Ending::kDrained);

}  // namespace farwrite::fabric
