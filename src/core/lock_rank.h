// LockRank: the order in which one thread locks. docs/explanation/thread-model.md says what each
// mutex guards and why some are held together.
#pragma once

#include <cstdint>

namespace farwrite::core {

// A thread that holds a mutex takes only those further down, so it never holds two of one rank.
// ordered_mutex.h checks this.
enum class LockRank : std::uint8_t {
  kDevice,
  kRegionRevocation,
  kRemoteRegionReach,
  kNotificationLoop,
  kControlRequests,
  kLandingMemory,
  // Locks of fabrics and of arenas lie here, and have no rank.
  kSegmentKeys,
  kRegionTable,
  kNameTable,
  kChannelLife,
  kPendingOperations,
  kLeaseTable,
  kRemoteLeases,
  kNotificationQueue,
  kPoller,
  kControlConnection,
  kEventLoop,
};

}  // namespace farwrite::core
