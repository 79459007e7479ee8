// LockRank: the order in which one thread locks, so that builds which check find threads that could
// deadlock. docs/explanation/thread-model.md says what each mutex guards and why some are held
// together.
//
// Two threads that lock two mutexes in opposite orders deadlock only when they meet. The check
// finds the wrong order in the first thread that takes it. FARWRITE_CHECK_LOCK_ORDER turns it on.
// Debug builds define that macro, and so do all sanitizer presets but tsan, because ThreadSanitizer
// reports wrong orders itself.
#pragma once

#include <cstdint>

namespace farwrite::core {

// A thread that holds a mutex takes only those further down, so it never holds two of one rank.
// User code runs inside kNotificationMode and may wait on another channel, so a thread may hold
// several of that rank.
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
  kVerbsConnectRequests,
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
  kLinkFlush,

  // Devices and channels.
  kSegmentKeys,
  kRegionTable,
  kNameTable,
  kChannelLife,
  kPendingOperations,
  kLeaseTable,
  kRemoteLeases,
  kOpenedRegions,
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

  // Not checked.
  kNone,
};

// The base of what has a rank, empty in builds that do not check.
class Ranked {
 public:
#ifdef FARWRITE_CHECK_LOCK_ORDER
  explicit constexpr Ranked(LockRank rank = LockRank::kNone) : rank_(rank) {}

 protected:
  // Aborts, and names both ranks, when this thread holds one of `rank_` or of a later rank.
  void before_lock() const;
  void locked() const;
  void before_unlock() const;

 private:
  LockRank rank_;
#else
  explicit constexpr Ranked(LockRank /*rank*/ = LockRank::kNone) {}

 protected:
  void before_lock() const {}
  void locked() const {}
  void before_unlock() const {}
#endif
};

}  // namespace farwrite::core
