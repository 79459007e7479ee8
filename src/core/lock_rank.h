// LockRank: the order in which one thread locks. docs/explanation/thread-model.md says what each
// mutex guards and why some are held together.
#pragma once

#include <cstdint>

namespace farwrite::core {

// A thread that holds a mutex takes only those further down, so it never holds two of one rank.
// User code runs inside kNotificationMode and may wait on another channel, so a thread may hold
// several of that rank. ordered_mutex.h checks this.
enum class LockRank : std::uint8_t {
  // Notifications of the user, and tensors.
  kNotificationMode,
  kTensorSender,
  kTensorOffer,
  kTensorPort,
  kTensorEngine,

  // Devices and channels.
  kDevice,
  kRegionRevocation,
  kRemoteRegionReach,
  kNotificationLoop,
  kControlRequests,
  kLandingMemory,

  // Fabrics; an arena that grows registers its segment with them.
  kNotifiedWrites,
  kArenaGrowth,
  kTcpListener,
  kLobby,
  kShmFabric,
  kShmSending,
  kShmReason,
  kShmGrants,
  kShmSegments,
  kTcpExports,
  kTcpLanding,
  kTcpRequests,
  kTcpGrants,
  kTcpSending,
  kVerbsArrivals,
  kVerbsEvents,
  kVerbsUsers,
  kVerbsLanding,
  kVerbsGrants,
  kVerbsImports,
  kVerbsQueue,
  kVerbsShutting,
  kVerbsLane,
  kVerbsSending,
  kVerbsEnd,
  kVerbsSegments,
  kVerbsOnDemand,
  kSimulatedWorld,
  kLinkFlush,

  // Devices and channels.
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

  // Memory.
  kArenaMap,
  kArenaCache,
  kAddressRange,

  // GPUs.
  kGpus,
  kGpuDriver,
  kGpuStreams,
  kGpuCopies,
};

}  // namespace farwrite::core
