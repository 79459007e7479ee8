#include "fabric/shm/shm_link.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "core/channel_end.h"
#include "core/mutex.h"

namespace farwrite::fabric::shm {
namespace {

// What a process has sent before its end is there at once, unless the machine is busy. Its
// connection ends with it, unless a forked child has it open. In turns of the loop, which may come
// late.
constexpr std::chrono::milliseconds kListenAgain(2);
constexpr int kTurnsToListen = 100;

}  // namespace

ShmLink::ShmLink(Attachment attachment, const AttachRequest& request, core::EventLoop& loop,
                 std::chrono::nanoseconds idle_time, FindSegment find_export)
    : peer_name_(request.peer_name),
      observer_(request.observer),
      loop_(loop),
      find_export_(std::move(find_export)),
      own_mailbox_(std::move(attachment.own)),
      peer_mailbox_(std::move(attachment.peer)),
      grants_(own_mailbox_.view),
      pidfd_(std::move(attachment.pidfd)) {
  for (std::uint32_t i = 0; i < request.lanes; ++i) {
    lanes_.push_back(std::make_unique<ShmLane>(*this, i, own_mailbox_.view, peer_mailbox_.view,
                                               std::move(attachment.own_doorbells[i]),
                                               std::move(attachment.peer_doorbells[i])));
  }
  const bool socket_end_is_death = !attachment.same_process && !pidfd_.valid();
  segments_ = std::make_unique<SegmentExchange>(
      std::move(attachment.socket), std::move(attachment.spare), loop_, peer_name_, idle_time,
      [this](std::uint32_t id) {
        const std::shared_ptr<memory::Segment> landing = grants_.find_segment(id);
        return landing != nullptr ? landing : find_export_(id);
      },
      own_mailbox_.witness,
      [this, socket_end_is_death](const Status& reason) {
        // Without a pidfd the end of the socket is the best proof there is; with one, the process
        // may live on, and only its end proves that nothing more lands.
        if (reason.code() == StatusCode::kProtocolError) poison(reason, /*dead=*/false);
        if (reason.code() == StatusCode::kUnavailable && socket_end_is_death) {
          on_peer_process_gone();
        }
      });
  segments_->start();
  if (pidfd_.valid()) {
    const Status watched =
        loop_.add_fd(pidfd_.get(), EPOLLIN, [this](std::uint32_t) { on_peer_process_gone(); });
    if (!watched.ok()) poison(watched, /*dead=*/false);
  }
}

ShmLink::~ShmLink() {
  if (pidfd_.valid()) loop_.remove_fd(pidfd_.get());
  segments_->stop();
  loop_.cancel_timer(tells_death_.load());
  segments_.reset();
  const Status closed = error(StatusCode::kCancelled, "notify", "the channel was closed",
                              "keep it open until the peer has taken its notifications");
  for (const auto& lane : lanes_) lane->end(closed);
}

Result<std::uint64_t> ShmLink::grant(const std::shared_ptr<memory::Segment>& segment,
                                     std::uint64_t offset, std::uint64_t length,
                                     std::uint64_t region_id) {
  return grants_.grant(segment, {segment->base() + offset, length}, region_id, peer_name_);
}

Status ShmLink::revoke(std::uint64_t key, std::uint64_t region_id, core::Deadline deadline) {
  return grants_.revoke(key, region_id, deadline, peer_name_);
}

Result<std::shared_ptr<RemoteWindow>> ShmLink::import(const RegionDescriptor& descriptor,
                                                      core::Deadline deadline) {
  const auto shm_key =
      std::find_if(descriptor.keys.begin(), descriptor.keys.end(),
                   [](const FabricKey& key) { return key.fabric == FabricKind::kShm; });
  if (shm_key == descriptor.keys.end()) {
    return error(StatusCode::kUnavailable, "open memory", "the descriptor has no key for shm",
                 "ask its owner for a descriptor that was made while shm was in use");
  }
  const GrantKey key = GrantKey::unpack(shm_key->key);
  auto segment = segments_->obtain(key.segment_id, deadline);
  if (!segment.ok()) return segment.status();
  const std::uint64_t bytes = (*segment)->bytes();
  if (descriptor.offset > bytes || descriptor.length > bytes - descriptor.offset) {
    return error(StatusCode::kOutOfRange, "open memory",
                 "the descriptor ends past the peer's memory", "ask its owner for a fresh one");
  }
  GrantRow* row = nullptr;
  if (descriptor.access == Access::kWrite) {
    if (!(*segment)->writable() || key.row >= peer_mailbox_.view.geometry().rows) {
      return error(StatusCode::kPermissionDenied, "open memory",
                   "the descriptor asks for writing, and the peer's memory is read-only",
                   "write to memory that the peer allocated for this channel");
    }
    row = &peer_mailbox_.view.row(key.row);
  }
  return std::shared_ptr<RemoteWindow>(
      std::make_shared<ShmWindow>(*std::move(segment), descriptor, row, key.row));
}

bool ShmLink::read_by_children() { return peer_mailbox_.segment->mapped_by_others(); }

LinkCounters ShmLink::counters() const {
  LinkCounters sum;
  for (const auto& lane : lanes_) {
    const LinkCounters counters = lane->counters();
    sum.copies += counters.copies;
    sum.backlogged += counters.backlogged;
    sum.doorbells += counters.doorbells;
  }
  return sum;
}

Status ShmLink::reason() const {
  const core::Lock lock(reason_mutex_);
  return reason_;
}

void ShmLink::poison(const Status& reason, bool dead) {
  {
    const core::Lock lock(reason_mutex_);
    if (reason_.ok() || dead) reason_ = reason;
  }
  const bool first = !poisoned_.exchange(true);
  if (segments_ != nullptr) segments_->fail(reason, dead);
  for (const auto& lane : lanes_) {
    lane->end(reason);
    lane->ring_own();
  }
  if (dead && !peer_dead_.exchange(true)) {
    observer_->on_peer_dead(reason);
  } else if (first && !dead) {
    observer_->on_link_error(reason);
  }
}

void ShmLink::on_peer_process_gone() {
  if (pidfd_.valid()) loop_.remove_fd(pidfd_.get());
  grants_.peer_died();
  turns_to_listen_ = kTurnsToListen;
  tells_death_.store(loop_.every(kListenAgain, [this] { tell_death_in_time(); }));
  tell_death_in_time();
}

void ShmLink::tell_death_in_time() {
  if (!observer_->heard_all() && turns_to_listen_-- > 0) return;
  loop_.cancel_timer(tells_death_.load());
  const Status death = error(StatusCode::kPeerDead, core::kUseTheChannel,
                             "the peer's process is gone", "restart it and connect again");
  poison(observer_->reason_of_end(death), /*dead=*/true);
}

Status ShmLink::error(StatusCode code, std::string_view operation, std::string_view cause,
                      std::string_view remedy) const {
  return Status::error(code, {operation, peer_name_, "shm"}, cause, remedy);
}

}  // namespace farwrite::fabric::shm
