// Pins of a hosted segment: the leases of its clients, and the snapshots that are written.
#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "box/hosted_segment.h"
#include "core/mutex.h"

namespace farwrite::box {

Pin& Pin::operator=(Pin&& other) noexcept {
  release();
  segment_ = std::move(other.segment_);
  number_ = other.number_;
  bytes_ = other.bytes_;
  id_ = other.id_;
  return *this;
}

void Pin::release() {
  if (segment_ != nullptr) std::exchange(segment_, nullptr)->unpin(number_);
}

std::uint64_t HostedSegment::leases() const {
  const core::Lock lock(mutex_);
  return buffers_.pins();
}

bool HostedSegment::make_room() {
  std::map<std::uint64_t, Holder> holders;
  {
    const core::Lock lock(mutex_);
    holders = holders_;
  }
  std::map<std::uint64_t, bool> silent;  // of each buffer: all holders
  for (const auto& [pin, holder] : holders) {
    const bool is_silent = holder.silent();
    const auto [at, first] = silent.emplace(holder.buffer, is_silent);
    if (!first) at->second = at->second && is_silent;
  }
  const core::Lock lock(mutex_);
  bool any = std::any_of(holders.begin(), holders.end(),
                         [&](const auto& known)
                             FW_REQUIRES(mutex_) { return !holders_.contains(known.first); });
  for (const auto& [buffer, all] : silent) {
    // A holder that came meanwhile is alive, and has the current buffer, which stays.
    if (all && buffers_.set_aside(buffer)) any = true;
  }
  return any;
}

Result<Pin> HostedSegment::pin(Silent silent) {
  core::Lock lock(mutex_);
  while (true) {
    changed_.wait(
        mutex_, [&]() FW_REQUIRES(mutex_) { return !changing_.has_value() || changing_->fresh(); });
    if (freed_) return gone();
    const Status pinned = buffers_.pin_current();
    if (pinned.ok()) break;
    if (!changing_.has_value()) {
      lock.unlock();
      if (!make_room()) return pinned;
      lock.lock();
      continue;
    }
    // The change under way has the last buffer; the one it leaves is spare.
    changed_.wait(mutex_, [&]() FW_REQUIRES(mutex_) { return !changing_.has_value(); });
  }
  leased_ = true;
  const std::uint32_t current = buffers_.current();
  const std::uint64_t pin = next_pin_++;
  holders_[pin] = {.buffer = buffers_.number(current), .silent = std::move(silent)};
  return Pin(shared_from_this(), pin, {buffers_.data(current), bytes_}, buffers_.id());
}

void HostedSegment::unpin(std::uint64_t pin) {
  Silent dropped;  // what it holds is destroyed without the lock
  const core::Lock lock(mutex_);
  const auto found = holders_.find(pin);
  buffers_.unpin(found->second.buffer);
  dropped = std::move(found->second.silent);
  holders_.erase(found);
}

}  // namespace farwrite::box
