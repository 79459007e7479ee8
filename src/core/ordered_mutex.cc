#include "core/ordered_mutex.h"

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
    case LockRank::kNotificationQueue:
      return "notification queue";
    case LockRank::kPoller:
      return "poller";
    case LockRank::kControlConnection:
      return "control connection";
    case LockRank::kEventLoop:
      return "event loop";
  }
  return "unknown";
}

// Strictly ascending ranks: no thread holds more than there are.
struct Held {
  std::array<LockRank, 1 + static_cast<std::size_t>(LockRank::kEventLoop)> ranks{};
  std::size_t count = 0;
};
// Without a destructor, so usable until the thread has ended.
constinit thread_local Held held;

}  // namespace

void HeldLocks::check(LockRank rank) {
  if (held.count == 0) return;
  const LockRank last = held.ranks[held.count - 1];
  if (last < rank) return;
  std::fprintf(stderr, "lock order: a thread that holds the mutex \"%s\" locks \"%s\"; %s\n",
               name_of(last), name_of(rank), "src/core/lock_rank.h has the order");
  std::abort();
}

void HeldLocks::add(LockRank rank) { held.ranks[held.count++] = rank; }

void HeldLocks::remove(LockRank rank) {
  const auto end = held.ranks.begin() + static_cast<std::ptrdiff_t>(held.count);
  std::copy(std::find(held.ranks.begin(), end, rank) + 1, end,
            std::find(held.ranks.begin(), end, rank));
  --held.count;
}

}  // namespace farwrite::core

#endif
