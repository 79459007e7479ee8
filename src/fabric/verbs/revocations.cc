#include "fabric/verbs/revocations.h"

#include <algorithm>
#include <utility>

#include "core/mutex.h"
#include "fabric/verbs/protocol.h"

namespace farwrite::fabric::verbs {
namespace {

constexpr std::chrono::nanoseconds kLookAround = std::chrono::seconds(1);

}  // namespace

void GrantedRegions::add(std::uint64_t region) {
  const core::Lock lock(mutex_);
  regions_.emplace(region, RevocationStage::kGranted);
}

Status GrantedRegions::revoke(std::uint64_t region, core::Deadline deadline) {
  core::Lock lock(mutex_);
  const auto found = regions_.find(region);
  if (found == regions_.end()) return Status();
  if (found->second == RevocationStage::kGranted && !all_settled_) {
    found->second = RevocationStage::kWaiting;
    waiting_.push_back(region);
    ask_next_locked();
  }
  while (!all_settled_) {
    const auto now = regions_.find(region);
    if (now == regions_.end()) return Status();  // another thread waited for the same
    if (now->second == RevocationStage::kSettled) break;
    if (deadline.expired()) {
      return Status::error(StatusCode::kPeerSilent, {"close memory", peer_name_, "verbs"},
                           "the peer has not confirmed that it no longer writes there",
                           "allow more time; the memory is not reused before the confirmation");
    }
    settled_.wait_for(mutex_, std::min(deadline.remaining(), kLookAround));
  }
  regions_.erase(region);
  return Status();
}

// A region that was settled with all others may have gone meanwhile.
void GrantedRegions::move_locked(std::uint64_t region, RevocationStage stage) {
  const auto found = regions_.find(region);
  if (found != regions_.end()) found->second = stage;
}

void GrantedRegions::ask_next_locked() {
  if (answers_ > 0 || waiting_.empty()) return;
  const std::size_t count = std::min(waiting_.size(), kMaxRevokedAtOnce);
  asked_.assign(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(count));
  waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(count));
  for (const std::uint64_t region : asked_) move_locked(region, RevocationStage::kAsked);
  answers_ = lanes_;
  ask_(++number_, asked_);
}

GrantedRegions::RevocationAnswer GrantedRegions::answered(std::uint64_t number) {
  {
    const core::Lock lock(mutex_);
    if (answers_ == 0 || number != number_) return RevocationAnswer::kUnasked;
    if (--answers_ > 0) return RevocationAnswer::kOneOfMany;
    for (const std::uint64_t region : asked_) move_locked(region, RevocationStage::kSettled);
    asked_.clear();
    ask_next_locked();
  }
  settled_.notify_all();
  return RevocationAnswer::kLast;
}

void GrantedRegions::settle_all() {
  {
    const core::Lock lock(mutex_);
    all_settled_ = true;
  }
  settled_.notify_all();
}

Status ImportedRegions::add(std::uint64_t region, const std::shared_ptr<VerbsWindow>& window) {
  const core::Lock lock(mutex_);
  if (gone_.contains(region)) {
    return Status::error(StatusCode::kFailedPrecondition, {"open memory", "", "verbs"},
                         "the memory was closed by its owner", "ask the peer for other memory");
  }
  auto& windows = windows_[region];
  std::erase_if(windows, [](const auto& weak) { return weak.expired(); });
  windows.push_back(window);
  if (windows_.size() < prune_at_) return Status();
  for (auto entry = windows_.begin(); entry != windows_.end();) {
    std::erase_if(entry->second, [](const auto& weak) { return weak.expired(); });
    entry = entry->second.empty() ? windows_.erase(entry) : std::next(entry);
  }
  prune_at_ = std::max<std::size_t>(1024, windows_.size() * 2);
  return Status();
}

void ImportedRegions::revoke(const std::vector<std::uint64_t>& regions) {
  const core::Lock lock(mutex_);
  for (const std::uint64_t region : regions) {
    if (gone_.insert(region).second) gone_in_order_.push_back(region);
    const auto found = windows_.find(region);
    if (found == windows_.end()) continue;
    for (const auto& weak : found->second) {
      if (const auto window = weak.lock()) window->revoked.store(true);
    }
    windows_.erase(found);
  }
  while (gone_in_order_.size() > kRemembered) {
    gone_.erase(gone_in_order_.front());
    gone_in_order_.pop_front();
  }
}

}  // namespace farwrite::fabric::verbs
