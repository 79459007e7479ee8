// A channel's life: start, close, finish, and the state of its peer.
#include "device/channel_state.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/channel_end.h"
#include "core/log.h"
#include "core/trace.h"
#include "device/device_state.h"

namespace farwrite::device {
namespace {

// What a trace says when a peer's state changes, by PeerState.
constexpr std::array<std::string_view, 4> kPeerEvents = {"peer alive", "peer silent", "peer closed",
                                                         "peer dead"};

bool is_over(PeerState state) { return state == PeerState::kClosed || state == PeerState::kDead; }

// Of a peer's end. Normally or with its process it ends at the end of every job; operations
// that wait for the peer get an error.
core::LogLevel level_of(PeerState end, const Status& reason, bool good_order) {
  if (end == PeerState::kDead || good_order) return core::LogLevel::kDebug;
  const bool broke_protocol = reason.code() == StatusCode::kProtocolError;
  return broke_protocol ? core::LogLevel::kWarning : core::LogLevel::kInfo;
}

}  // namespace

ChannelState::ChannelState(std::shared_ptr<DeviceState> device)
    : device_(std::move(device)),
      number_(device_->next_channel_number()),
      leases_(device_->options().send_limit_per_peer),
      lease_returns_(
          remote_leases_, [this](const fabric::Operation& record) { return post_return(record); },
          [this](const ReleaseMessage& lease) {
            send(ControlFrameType::kRelease, lease.to_bytes());
          }),
      requests_(
          peer_name_, life_, remote_leases_,
          [this](ControlFrameType type, const std::vector<std::byte>& body) { send(type, body); }),
      peer_requests_(
          *device_, peer_, peer_name_, landing_, leases_,
          [this](const ReplyMessage& reply) { send(ControlFrameType::kReply, reply.to_bytes()); }) {
}

ChannelState::~ChannelState() {
  if (device_->fork_guard().in_forked_child()) {
    // The parent's threads and sockets are not ours to end.
    (void)control_.release();
    link_.leak();
    return;
  }
  if (control_ != nullptr) control_->close();
  link_.drop();  // while what it observes, this, is still whole
}

Status ChannelState::start(HandshakeResult handshake, std::string peer_name,
                           std::unique_ptr<core::ByteStream> stream) {
  peer_name_ = std::move(peer_name);
  peer_ = std::move(handshake.peer);
  capabilities_ = device_->capabilities(peer_.fabric);
  if (capabilities_.serves_reads) leases_.remember_ranges();
  handshake.link->refine(capabilities_);
  named_.store(true);
  link_.set(std::move(handshake.link));
  heard();
  control_ = std::make_unique<ControlConnection>(
      std::move(stream), device_->loop(),
      [this](ControlFrameType type, ByteView body) { on_frame(type, body); },
      [this](const Status& reason) { on_connection_end(reason); });
  const std::shared_ptr<ChannelState> self = shared_from_this();
  operations_.start(std::shared_ptr<ChannelOperations>(self, &operations_), peer_, peer_name_,
                    capabilities_);
  lease_returns_.start(std::shared_ptr<LeaseReturns>(self, &lease_returns_));
  lanes_.start(std::shared_ptr<ChannelLanes>(self, &lanes_), peer_, peer_name_, capabilities_,
               [this]() -> Poller& { return device_->next_poller(); });
  return control_->start();
}

bool ChannelState::entered_by_this_thread() const { return core::Inside::is(this); }

std::shared_ptr<ChannelState> ChannelState::user_handle() {
  return {this, [self = shared_from_this()](ChannelState*) {
            if (self->device_->fork_guard().in_forked_child() || self->life_.closing()) return;
            if (self->entered_by_this_thread()) {
              // A callback held the last handle: once it has returned.
              self->begin_closing();
              self->device_->post([self] { self->go_on_closing(); });
              return;
            }
            // No caller is left to tell of a peer that did not settle; its memory is quarantined.
            const Status closed = self->close(kSettle);
            if (closed.code() == StatusCode::kDeadlineExceeded) {
              core::log(core::LogLevel::kWarning, closed.message());
            }
          }};
}

PeerState ChannelState::peer_state() const {
  const PeerState state = life_.peer_state();
  // A peer's death is news also later. Nothing else is learned about it once this side has closed.
  return life_.closing() && state != PeerState::kDead ? PeerState::kClosed : state;
}

void ChannelState::peer_is(PeerState state, const Status& reason, bool good_order) {
  const ChannelLife::PeerTransition change = life_.peer_is(state, reason, good_order);
  if (!change.changed) return;
  if (is_over(state) && good_order) {
    times_.abandon_after(device_->options().detection_time);
  }
  if (state == PeerState::kSilent) silences_.add();
  if (named_.load()) {
    core::trace_instant(kPeerEvents[static_cast<std::size_t>(state)], to_string(peer_.fabric),
                        peer_name_);
  }
  // Silence itself is logged by warn_of_silence(), once it has lasted.
  if (is_over(state) || change.ended_silence) {
    core::log(change.ended_silence ? core::LogLevel::kWarning : level_of(state, reason, good_order),
              (named_.load() ? peer_name_ : "a new peer") + " is " + std::string(to_string(state)) +
                  (reason.ok() ? "" : ": " + reason.message()));
  }
  if (!is_over(state)) return;
  if (!good_order) operations_.abandon(reason, /*reads_too=*/true);
  requests_.look_again();
  inbox_.wake_all();
  lanes_.drain();
}

void ChannelState::warn_of_silence() {
  const std::optional<Status> reason = life_.take_silence_to_warn_of();
  if (!reason.has_value()) return;
  core::log(core::LogLevel::kWarning, peer_name_ + " is silent: " + reason->message());
}

void ChannelState::on_peer_dead(const Status& reason) {
  peer_is(PeerState::kDead, reason);
  life_.peer_is_gone();
  cut_link(life_.left_in_good_order());  // no read of memory whose leases end now
  end_leases_of_the_dead();
  // Not at once: this may be the link's own call, and finishing destroys the link.
  if (auto self = weak_from_this().lock()) {
    device_->post([self] {
      self->landing_.settle();
      self->finish_if_due();
    });
  }
}

Status ChannelState::reason_of_end(const Status& death) const {
  return life_.left_in_good_order() ? life_.peer_reason() : death;
}

void ChannelState::end_leases_of_the_dead() {
  if (!life_.peer_gone() || life_.readers_gone()) return;
  if (leases_.held() > 0) {
    const ChannelLink::LinkUse link(link_);
    if (link && link->read_by_children()) return;  // tick() asks again
  }
  leases_.close();
  life_.readers_are_gone();
}

void ChannelState::cut_link(bool in_good_order) {
  if (const ChannelLink::LinkUse link(link_); link) link->cut(in_good_order);
}

void ChannelState::on_revoked() {
  device_->post([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->landing_.settle();
  });
}

void ChannelState::on_link_error(const Status& reason) { refuse(reason); }

void ChannelState::heard() {
  times_.received();
  if (life_.peer_state() == PeerState::kSilent) {
    peer_is(PeerState::kAlive, Status());
  }
}

void ChannelState::tick(std::chrono::nanoseconds now, std::chrono::nanoseconds absence) {
  landing_.settle();
  take_waiting_returns();
  release_held();
  landing_.reclaim();
  peer_requests_.expire_parked();
  expire_lookups_in_time();
  go_on_closing();
  if (times_.abandon_is_due()) {
    operations_.abandon(unusable(core::kUseTheChannel), /*reads_too=*/false);
  }
  end_leases_of_the_dead();
  say_fin_if_due();  // the last pending operation may have ended
  finish_if_due();
  if (times_.take_due_cut()) {
    cut_link(/*in_good_order=*/false);
    cut_off_.store(true);
  }
  if (peer_over()) return;
  send(ControlFrameType::kPing);
  const std::chrono::nanoseconds quiet = times_.silence(now, absence);
  if (quiet > device_->options().detection_time) {
    peer_is(PeerState::kSilent,
            Status::error(StatusCode::kPeerSilent, {"receive", peer_name_},
                          "nothing received for " + std::to_string(quiet.count() / 1000000) + " ms",
                          "the peer may be stopped (SIGCONT resumes it) or overloaded"));
    warn_of_silence();
  }
}

Status ChannelState::unusable(std::string_view operation) const {
  return life_.unusable(operation, peer_name_);
}

ChannelStats ChannelState::stats() const {
  ChannelStats stats;
  if (device_->fork_guard().in_forked_child()) return stats;
  const fabric::LinkCounters link = link_.counters();
  stats.copies = link.copies;
  stats.backlogged = link.backlogged;
  stats.doorbells = link.doorbells;
  operations_.counts().fill_in(stats);
  stats.notifications_received = inbox_.notifications();
  stats.messages_received = inbox_.messages();
  stats.leases_granted = leases_.granted();
  stats.leases_released = leases_.released();
  stats.leases_held = remote_leases_.held();
  stats.quarantined_bytes = landing_.quarantined_bytes();
  stats.silences = silences_.value();
  return stats;
}

}  // namespace farwrite::device
