// Revocations: regions that a peer may write, and how they are taken back.
//
// A key is a segment's, and a segment holds many regions, so the adapter cannot refuse one of them.
// The owner asks the peer: kRevoke names regions, the peer posts no more writes to them and answers
// kRevoked on every lane. A queue pair works in order, so once all answers are here, whatever was
// posted before has landed, and nothing lands any more. A peer that does not answer is silent: its
// memory is not reused until the connection is cut, which ends its access at once.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/deadline.h"
#include "core/mutex.h"
#include "fabric/fabric.h"
#include "farwrite/status.h"

namespace farwrite::fabric::verbs {

// The owner's side. Thread-safe.
class GrantedRegions {
 public:
  // `ask` sends a kRevoke; it is called under the lock, and must not call back.
  using Ask = std::function<void(std::uint64_t number, const std::vector<std::uint64_t>& regions)>;

  GrantedRegions(std::string peer_name, std::uint32_t lanes, Ask ask)
      : peer_name_(std::move(peer_name)), lanes_(lanes), ask_(std::move(ask)) {}

  void add(std::uint64_t region);
  // Asks, and waits until it is settled. kPeerSilent when it is not in time; ask again then.
  Status revoke(std::uint64_t region, core::Deadline deadline);
  // One lane's answer. kLast: what was asked is settled. kUnasked: nothing of that number was.
  enum class RevocationAnswer : std::uint8_t { kUnasked, kOneOfMany, kLast };
  RevocationAnswer answered(std::uint64_t number);
  // Nothing of the peer lands any more, asked or not.
  void settle_all();

 private:
  enum class RevocationStage : std::uint8_t { kGranted, kWaiting, kAsked, kSettled };
  void move_locked(std::uint64_t region, RevocationStage stage) FW_REQUIRES(mutex_);
  void ask_next_locked() FW_REQUIRES(mutex_);

  const std::string peer_name_;
  const std::uint32_t lanes_;
  const Ask ask_;
  core::Mutex mutex_{core::LockRank::kVerbs, 3};
  core::CondVar settled_;
  std::map<std::uint64_t, RevocationStage> regions_ FW_GUARDED_BY(mutex_);
  std::deque<std::uint64_t> waiting_ FW_GUARDED_BY(mutex_);
  std::vector<std::uint64_t> asked_ FW_GUARDED_BY(mutex_);  // one kRevoke is under way at a time
  std::uint64_t number_ FW_GUARDED_BY(mutex_) = 0;          // of that one
  std::uint32_t answers_ FW_GUARDED_BY(mutex_) = 0;         // of lanes, still to come
  bool all_settled_ FW_GUARDED_BY(mutex_) = false;
};

// How the writer reaches one region of its peer.
class VerbsWindow final : public RemoteWindow {
 public:
  std::uint64_t address = 0;  // of the region's first byte, in the peer's memory
  std::uint32_t remote_key = 0;
  // The peer has closed the region. Looked at under the lane's lock, so that behind the lane's
  // kRevoked nothing more is posted.
  std::atomic<bool> revoked{false};
};

// The writer's side: windows by region. Thread-safe.
class ImportedRegions {
 public:
  // kFailedPrecondition if the owner has closed the region meanwhile.
  Status add(std::uint64_t region, const std::shared_ptr<VerbsWindow>& window);
  void revoke(const std::vector<std::uint64_t>& regions);

 private:
  // A descriptor may be on its way here while its region is revoked. Later than this many
  // revocations it cannot be.
  static constexpr std::size_t kRemembered = 1 << 16;

  core::Mutex mutex_{core::LockRank::kVerbs};
  std::unordered_map<std::uint64_t, std::vector<std::weak_ptr<VerbsWindow>>> windows_
      FW_GUARDED_BY(mutex_);
  std::size_t prune_at_ FW_GUARDED_BY(mutex_) = 1024;
  std::unordered_set<std::uint64_t> gone_ FW_GUARDED_BY(mutex_);
  std::deque<std::uint64_t> gone_in_order_ FW_GUARDED_BY(mutex_);
};

}  // namespace farwrite::fabric::verbs
