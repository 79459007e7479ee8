#include "core/lock_rank.h"

#ifdef FARWRITE_CHECK_LOCK_ORDER

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <cstdlib>

namespace farwrite::core {
namespace {

const char* name_of(LockRank rank) {
  switch (rank) {
    case LockRank::kNotificationMode:
      return "notification mode";
    case LockRank::kTensorSender:
      return "tensor sender";
    case LockRank::kTensorOffer:
      return "tensor offer";
    case LockRank::kTensorPort:
      return "tensor port";
    case LockRank::kTensorEngine:
      return "tensor engine";
    case LockRank::kDevice:
      return "device";
    case LockRank::kRegionRevocation:
      return "region revocation";
    case LockRank::kRemoteRegionReach:
      return "remote region reach";
    case LockRank::kNotificationLoop:
      return "notification loop";
    case LockRank::kControlRequests:
      return "control requests";
    case LockRank::kLandingMemory:
      return "landing memory";
    case LockRank::kNotifiedWrites:
      return "notified writes";
    case LockRank::kArenaGrowth:
      return "arena growth";
    case LockRank::kTcpListener:
      return "tcp listener";
    case LockRank::kLobby:
      return "lobby";
    case LockRank::kShmFabric:
      return "shm fabric";
    case LockRank::kShmSending:
      return "shm sending";
    case LockRank::kShmReason:
      return "shm reason";
    case LockRank::kShmGrants:
      return "shm grants";
    case LockRank::kShmSegments:
      return "shm segments";
    case LockRank::kTcpExports:
      return "tcp exports";
    case LockRank::kTcpLanding:
      return "tcp landing";
    case LockRank::kTcpRequests:
      return "tcp requests";
    case LockRank::kTcpGrants:
      return "tcp grants";
    case LockRank::kTcpSending:
      return "tcp sending";
    case LockRank::kVerbsConnectRequests:
      return "verbs connect requests";
    case LockRank::kVerbsEvents:
      return "verbs events";
    case LockRank::kVerbsUsers:
      return "verbs users";
    case LockRank::kVerbsLanding:
      return "verbs landing";
    case LockRank::kVerbsGrants:
      return "verbs grants";
    case LockRank::kVerbsImports:
      return "verbs imports";
    case LockRank::kVerbsQueue:
      return "verbs completion queue";
    case LockRank::kVerbsShutting:
      return "verbs shutting";
    case LockRank::kVerbsLane:
      return "verbs lane";
    case LockRank::kVerbsSending:
      return "verbs sending";
    case LockRank::kVerbsEnd:
      return "verbs end";
    case LockRank::kVerbsSegments:
      return "verbs segments";
    case LockRank::kVerbsOnDemand:
      return "verbs on demand";
    case LockRank::kGpus:
      return "gpus";
    case LockRank::kGpuDriver:
      return "gpu driver";
    case LockRank::kGpuStreams:
      return "gpu streams";
    case LockRank::kGpuCopies:
      return "gpu copies";
    case LockRank::kLinkFlush:
      return "link flush";
    case LockRank::kSegmentKeys:
      return "segment keys";
    case LockRank::kRegionTable:
      return "region table";
    case LockRank::kNameTable:
      return "name table";
    case LockRank::kChannelLife:
      return "channel life";
    case LockRank::kPendingOperations:
      return "pending operations";
    case LockRank::kLeaseTable:
      return "lease table";
    case LockRank::kRemoteLeases:
      return "remote leases";
    case LockRank::kOpenedRegions:
      return "opened regions";
    case LockRank::kNotificationQueue:
      return "notification queue";
    case LockRank::kPoller:
      return "poller";
    case LockRank::kControlConnection:
      return "control connection";
    case LockRank::kEventLoop:
      return "event loop";
    case LockRank::kArenaMap:
      return "arena map";
    case LockRank::kArenaCache:
      return "arena cache";
    case LockRank::kAddressRange:
      return "address range";
    case LockRank::kNone:
      break;
  }
  return "unknown";
}

// The ranks ascend, strictly but for the one that may nest.
constexpr std::size_t kMostNested = 64;
struct HeldLocks {
  std::array<LockRank, kMostNested + static_cast<std::size_t>(LockRank::kNone)> ranks{};
  std::size_t count = 0;
};
// Without a destructor, so usable until the thread has ended.
constinit thread_local HeldLocks held;

}  // namespace

void Ranked::before_lock() const {
  if (held.count == 0 || rank_ == LockRank::kNone) return;
  const LockRank last = held.ranks[held.count - 1];
  if (last < rank_) return;
  const bool nests = last == rank_ && rank_ == LockRank::kNotificationMode;
  if (nests && held.count < kMostNested) return;
  std::fprintf(stderr, "lock order: a thread that holds the mutex \"%s\" locks \"%s\"; %s\n",
               name_of(last), name_of(rank_), "src/core/lock_rank.h has the order");
  std::abort();
}

void Ranked::locked() const {
  if (rank_ != LockRank::kNone) held.ranks[held.count++] = rank_;
}

void Ranked::before_unlock() const {
  if (rank_ == LockRank::kNone) return;
  const auto end = held.ranks.begin() + static_cast<std::ptrdiff_t>(held.count);
  std::copy(std::find(held.ranks.begin(), end, rank_) + 1, end,
            std::find(held.ranks.begin(), end, rank_));
  --held.count;
}

}  // namespace farwrite::core

#endif
