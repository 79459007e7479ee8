// A channel's life: start, close, finish, and the state of its peer.
#include "device/channel_state.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/log.h"
#include "core/trace.h"
#include "device/channel_inside.h"
#include "device/channel_lane.h"
#include "device/device_state.h"

namespace farwrite::device {
namespace {

// What a trace says when a peer's state changes, by PeerState.
constexpr std::array<std::string_view, 4> kPeerEvents = {"peer alive", "peer silent", "peer closed",
                                                         "peer dead"};

bool is_over(PeerState state) { return state == PeerState::kClosed || state == PeerState::kDead; }

}  // namespace

thread_local const ChannelState::Inside* ChannelState::Inside::innermost = nullptr;

ChannelState::ChannelState(std::shared_ptr<DeviceState> device)
    : device_(std::move(device)),
      number_(device_->next_channel_number()),
      leases_(device_->options().send_limit_per_peer) {}

ChannelState::~ChannelState() {
  if (device_->fork_guard().in_forked_child()) {
    // The parent's threads and sockets are not ours to end.
    (void)control_.release();
    new std::shared_ptr<fabric::Link>(std::move(link_));
    return;
  }
  if (control_ != nullptr) control_->close();
  link_.reset();  // while what it observes, this, is still whole
}

Status ChannelState::start(Introduction introduction, std::string peer_name,
                           std::unique_ptr<core::ByteStream> stream) {
  peer_name_ = std::move(peer_name);
  peer_ = std::move(introduction.peer);
  capabilities_ = device_->capabilities(peer_.fabric);
  introduction.link->refine(capabilities_);
  has_records_ = introduction.wire_version >= kRecordsVersion;
  named_.store(true);
  FARWRITE_RETURN_IF_ERROR(inbox_.open());
  {
    const std::lock_guard<std::mutex> lock(link_mutex_);
    link_ = std::move(introduction.link);
    raw_link_ = link_.get();
  }
  heard();
  control_ = std::make_unique<ControlConnection>(
      std::move(stream), device_->loop(),
      [this](FrameType type, ByteView body) { on_frame(type, body); },
      [this](const Status& reason) { on_connection_end(reason); });
  undrained_.store(peer_.lanes);
  const std::uint32_t lanes = peer_.lanes + (has_records_ ? 1 : 0);
  for (std::uint32_t lane = 0; lane < lanes; ++lane) {
    lanes_.push_back(std::make_shared<Lane>(*this, lane, device_->next_poller()));
  }
  for (const auto& lane : lanes_) lane->poller().add(lane);
  if (!capabilities_.has_immediate) lower_notified_writes();
  live_.store(true);
  if (peer_over()) drain_lanes();  // it may have gone before the lanes were there
  return control_->start();
}

bool ChannelState::entered_by_this_thread() const { return Inside::is(this); }

std::shared_ptr<ChannelState> ChannelState::user_handle() {
  return {this, [self = shared_from_this()](ChannelState*) {
            if (self->device_->fork_guard().in_forked_child() || self->closing_.load()) return;
            // Nobody is left to hear of a peer that did not settle; its memory is quarantined.
            if (Inside::is(self.get())) {
              // A callback held the last handle: once it has returned.
              self->device_->loop().post([self] { (void)self->close(std::chrono::seconds(0)); });
            } else {
              (void)self->close(std::chrono::seconds(1));
            }
          }};
}

std::shared_ptr<fabric::Link> ChannelState::link() const {
  const std::lock_guard<std::mutex> lock(link_mutex_);
  return link_;
}

Status ChannelState::close(std::chrono::nanoseconds timeout) {
  FARWRITE_RETURN_IF_ERROR(device_->fork_guard().check("close a channel"));
  if (Inside::is(this)) {
    return Status::error(StatusCode::kFailedPrecondition, {"close the channel", peer_name_},
                         "called inside one of its own callbacks",
                         "close it from another thread, or after the callback returns");
  }
  const core::Deadline deadline = core::Deadline::after(timeout);
  if (closing_.exchange(true)) return wait_until_closed(deadline);
  gate_.close();
  inbox_.wake_all();
  end_requests();
  gate_.wait_until_empty();
  end_lanes();
  // Leases still come back, and where our CPU makes the progress, what was posted still goes out.
  if (capabilities_.cpu_free_target) leave_pollers(/*return_lane_too=*/false);
  abandon_pending(unusable("close the channel"), /*reads_too=*/true);
  // Inside the handler it cannot be dropped; then it goes with the channel.
  (void)inbox_.set_handler(nullptr);
  inbox_.drop_queued();
  drop_end_handler();
  const Status status = revoke_all(deadline);
  names_.clear();
  send(FrameType::kBye);
  {
    const std::lock_guard<std::mutex> lock(state_mutex_);
    closed_ = true;
    close_status_ = status;
  }
  state_changed_.notify_all();
  say_fin_if_due();
  finish_if_due();
  return status;
}

Status ChannelState::wait_until_closed(core::Deadline deadline) {
  std::unique_lock<std::mutex> lock(state_mutex_);
  while (!closed_) {
    if (deadline.expired()) {
      return Status::error(StatusCode::kDeadlineExceeded, {"close the channel", peer_name_},
                           "another thread is still closing it", "allow more time");
    }
    state_changed_.wait_for(lock, std::min(deadline.remaining(), kLookAround));
  }
  return close_status_;
}

void ChannelState::end_lanes() {
  const core::Gate::Pass pass(link_gate_);
  const std::shared_ptr<fabric::Link> link = pass ? this->link() : nullptr;
  if (link == nullptr || peer_over()) return;
  fabric::Operation end;
  end.kind = fabric::OperationKind::kEnd;
  for (end.lane = 0; end.lane < peer_.lanes; ++end.lane) {
    // Pending or not, it goes behind what was posted before, or the peer has gone.
    if (!link->post(end).done()) lanes_[end.lane]->expect_progress();
  }
}

void ChannelState::leave_pollers(bool return_lane_too) {
  for (const auto& lane : lanes_) {
    if (return_lane_too || !lane->is_return_lane()) lane->poller().remove(lane);
  }
}

void ChannelState::say_fin_if_due() {
  // Said before the lock goes: a thread that sees fin_sent_ may end the channel and its connection.
  const std::lock_guard<std::mutex> lock(state_mutex_);
  const bool over = closed_ || (drained_ && peer_state_.load() == PeerState::kClosed);
  if (!over || remote_leases_ > 0 || fin_sent_ || finished_) return;
  send(FrameType::kFin);
  fin_sent_ = true;
}

void ChannelState::finish_if_due() {
  {
    const std::lock_guard<std::mutex> lock(state_mutex_);
    // A peer that maps our memory and never hears FIN would wait for it until we end. A FIN that
    // the socket has not taken yet goes first; tick() asks again.
    const bool parted = fin_sent_ && fin_received_ && control_->all_sent();
    if (finished_ || !closed_ || (!parted && !peer_gone_.load())) return;
  }
  finish();
}

void ChannelState::finish() {
  {
    const std::lock_guard<std::mutex> lock(state_mutex_);
    if (std::exchange(finished_, true)) return;
  }
  if (control_ != nullptr) control_->close();
  leave_pollers(/*return_lane_too=*/true);
  leases_.close();
  inbox_.drop_queued();
  std::shared_ptr<fabric::Link> link;
  {
    const std::lock_guard<std::mutex> lock(link_mutex_);
    if (link_ != nullptr) last_link_counters_ = link_->counters();
    link.swap(link_);
  }
  link_gate_.close();
  link_gate_.wait_until_empty();
  link.reset();
  std::vector<Quarantined> quarantined;
  {
    const std::lock_guard<std::mutex> lock(quarantine_mutex_);
    quarantined.swap(quarantined_);
  }
  // Nothing is allocated from a finished channel's arena again, so nothing is reused.
  for (const Quarantined& entry : quarantined) entry.arena->free(entry.block.data);
  release_landing();
  device_->forget(*this);
  {
    const std::lock_guard<std::mutex> lock(state_mutex_);
    finish_over_ = true;
  }
  state_changed_.notify_all();
}

void ChannelState::finish_for_device() {
  std::unique_lock<std::mutex> lock(state_mutex_);
  state_changed_.wait(lock, [this] { return closed_; });
  lock.unlock();
  finish();
  lock.lock();
  state_changed_.wait(lock, [this] { return finish_over_; });
}

void ChannelState::peer_is(PeerState state, const Status& reason, bool good_order) {
  {
    const std::lock_guard<std::mutex> lock(state_mutex_);
    const PeerState before = peer_state_.load();
    if (before == state || before == PeerState::kDead) return;
    if (before == PeerState::kClosed) return;  // a peer that left in good order has left
    if (is_over(state) && peer_reason_.ok()) {
      peer_reason_ = reason;
      good_order_ = good_order;
    }
    peer_state_.store(state);
  }
  if (state == PeerState::kSilent) silences_.add();
  if (named_.load()) {
    core::trace_instant(kPeerEvents[static_cast<std::size_t>(state)], to_string(peer_.fabric),
                        peer_name_);
  }
  core::log(is_over(state) ? core::LogLevel::kInfo : core::LogLevel::kWarning,
            (named_.load() ? peer_name_ : "a new peer") + " is " + std::string(to_string(state)) +
                (reason.ok() ? "" : ": " + reason.message()));
  if (!is_over(state)) return;
  abandon_pending(reason, /*reads_too=*/!(state == PeerState::kClosed && good_order));
  end_requests();
  inbox_.wake_all();
  drain_lanes();
}

void ChannelState::on_peer_dead(const Status& reason) {
  peer_is(PeerState::kDead, reason);
  peer_gone_.store(true);
  {
    const core::Gate::Pass pass(link_gate_);
    // No read of memory whose leases end now.
    if (const std::shared_ptr<fabric::Link> link = pass ? this->link() : nullptr) link->cut();
  }
  leases_.close();
  // Not at once: this may be the link's own call, and finishing destroys the link.
  if (auto self = weak_from_this().lock()) {
    device_->loop().post([self] {
      self->tick_quarantine();
      self->finish_if_due();
    });
  }
}

void ChannelState::on_revoked() {
  device_->loop().post([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->tick_quarantine();
  });
}

void ChannelState::on_link_error(const Status& reason) { peer_is(PeerState::kClosed, reason); }

void ChannelState::heard() {
  last_heard_ns_.store(core::now_ns(), std::memory_order_relaxed);
  if (peer_state_.load(std::memory_order_relaxed) == PeerState::kSilent) {
    peer_is(PeerState::kAlive, Status());
  }
}

void ChannelState::tick() {
  tick_quarantine();
  expire_parked_lookups();
  finish_if_due();
  if (is_over(peer_state_.load())) return;
  send(FrameType::kPing);
  const std::chrono::nanoseconds quiet(core::now_ns() - last_heard_ns_.load());
  if (quiet > device_->options().detection_time) {
    peer_is(PeerState::kSilent,
            Status::error(StatusCode::kPeerSilent, {"hear from the peer", peer_name_},
                          "nothing for " + std::to_string(quiet.count() / 1000000) + " ms",
                          "it may be stopped (SIGCONT resumes it) or overloaded"));
  }
}

void ChannelState::tick_quarantine() {
  for (const auto& region : landing_regions()) {
    // Closed while the peer was writing, and still held by the user.
    if (region->quarantined()) (void)region->close(std::chrono::nanoseconds(0));
  }
  const core::Gate::Pass pass(link_gate_);
  const std::shared_ptr<fabric::Link> link = pass ? this->link() : nullptr;
  if (link == nullptr) return;
  std::vector<Quarantined> settled;
  {
    const std::lock_guard<std::mutex> lock(quarantine_mutex_);
    std::erase_if(quarantined_, [&](Quarantined& entry) {
      if (!link->revoke(entry.key, entry.region_id, core::Deadline::after({})).ok()) return false;
      settled.push_back(std::move(entry));
      return true;
    });
  }
  for (const Quarantined& entry : settled) entry.arena->free(entry.block.data);
}

Status ChannelState::unusable(std::string_view operation) const {
  if (closing_.load()) {
    return Status::error(StatusCode::kCancelled, {operation, peer_name_},
                         "this side closed the channel", "open another one");
  }
  const std::lock_guard<std::mutex> lock(state_mutex_);
  if (!peer_reason_.ok()) return peer_reason_;
  return Status();
}

ChannelStats ChannelState::stats() const {
  ChannelStats stats;
  {
    const std::lock_guard<std::mutex> lock(link_mutex_);
    const fabric::LinkCounters counters =
        link_ != nullptr ? link_->counters() : last_link_counters_;
    stats.copies = counters.copies;
    stats.backlogged = counters.backlogged;
    stats.doorbells = counters.doorbells;
  }
  stats.writes = writes_.value();
  stats.reads = reads_.value();
  stats.aliases = aliases_.value();
  stats.bytes_written = bytes_written_.value();
  stats.bytes_read = bytes_read_.value();
  stats.bytes_aliased = bytes_aliased_.value();
  stats.notifications_sent = notifications_sent_.value();
  stats.messages_sent = messages_sent_.value();
  stats.notifications_received = inbox_.notifications();
  stats.messages_received = inbox_.messages();
  stats.leases_granted = leases_.granted();
  stats.leases_released = leases_.released();
  {
    const std::lock_guard<std::mutex> lock(state_mutex_);
    stats.leases_held = remote_leases_;
  }
  {
    const std::lock_guard<std::mutex> lock(quarantine_mutex_);
    for (const Quarantined& entry : quarantined_) stats.quarantined_bytes += entry.block.bytes;
  }
  for (const auto& region : landing_regions()) {
    if (region->quarantined()) stats.quarantined_bytes += region->bytes();
  }
  stats.silences = silences_.value();
  return stats;
}

}  // namespace farwrite::device
