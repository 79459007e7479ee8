// ChannelState: everything behind a Channel.
//
// Life: open -> closed (by us: close(); by the peer: BYE; by its death) -> finished. A closed
// channel lingers while leases are out: a peer may look at our memory, or we at its, longer than
// the channel lives. BYE says "nothing of mine moves any more"; FIN says "I hold no lease of yours
// any more, and what is left in my lanes I shall not look at". When both have said FIN, or the peer
// is dead, the channel is finished and gone.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/completion_state.h"
#include "core/counter.h"
#include "core/gate.h"
#include "core/inside.h"
#include "device/control_connection.h"
#include "device/control_messages.h"
#include "device/handshake.h"
#include "device/lease_table.h"
#include "device/name_table.h"
#include "device/notification_inbox.h"
#include "device/poller.h"
#include "device/region_state.h"
#include "device/remote_region_state.h"
#include "device/return_queue.h"
#include "fabric/fabric.h"
#include "fabric/notified_writes.h"
#include "farwrite/channel.h"
#include "memory/arena.h"
#include "memory/held_back.h"

namespace farwrite::device {

class DeviceState;

// Bounds one turn of a wait: ends of channels are announced, but never relied on alone, and no
// clock arithmetic overflows.
inline constexpr std::chrono::nanoseconds kLookAround = std::chrono::seconds(1);
// How long the end of the last handle waits for callbacks and for the peer.
inline constexpr std::chrono::nanoseconds kSettle = std::chrono::seconds(1);

class ChannelState final : public fabric::LinkObserver,
                           private LaneDriver,
                           public std::enable_shared_from_this<ChannelState> {
 public:
  // The peer is not known yet: the handshake needs the channel as the link's observer.
  explicit ChannelState(std::shared_ptr<DeviceState> device);
  ~ChannelState() override;

  // Second half of construction, after the handshake: goes live on the event loop and pollers.
  Status start(Introduction introduction, std::string peer_name,
               std::unique_ptr<core::ByteStream> stream);
  // The handle a user gets: the channel closes when its last copy is gone.
  std::shared_ptr<ChannelState> user_handle();

  // What Channel says, under the same names (channel_transfer.cc).
  Completion post(RemoteRegionState* remote, fabric::Operation operation);
  Result<Alias> alias(const std::shared_ptr<RemoteRegionState>& source, std::uint64_t offset,
                      std::uint64_t length);
  Result<Notification> wait_notification(std::chrono::nanoseconds timeout);
  Result<std::optional<Notification>> try_notification();
  Result<int> notification_descriptor();
  Result<bool> arm_notifications();
  void disarm_notifications();
  Status on_notification(std::function<void(Notification)> handler,
                         std::chrono::nanoseconds timeout);
  std::uint64_t max_message_bytes() const;
  bool maps_peer_memory() const { return capabilities_.maps_peer_memory; }
  Status on_end(std::function<void(bool good_order, const Status& reason)> handler);

  // Leases without a round trip (channel_lease.cc).
  Completion lend(ByteView message, ByteView memory, std::function<void()> returned,
                  std::uint32_t tag, std::uint32_t lane);
  void release_remote(std::uint64_t lease);
  // The same, once no forked child can look at what was leased at a ForkedReaders::stamp().
  void hold_remote(std::uint64_t lease, std::uint64_t made);

  // For the transfer layer. What it keeps with the channel, made at the first call; it must hold
  // nothing of the channel.
  std::shared_ptr<void> kept(const std::function<std::shared_ptr<void>()>& make);
  const fabric::Capabilities& capabilities() const { return capabilities_; }
  std::uint64_t registrations() const;
  // A message of the peer's transfer layer breaks its protocol: ends the channel on both sides.
  void refuse_message(const Status& reason);

  // Memory and names (channel_memory.cc).
  Result<std::shared_ptr<RegionState>> allocate(std::uint64_t bytes);
  Status publish(std::string_view name, PublishedRegion published);
  Result<std::shared_ptr<RemoteRegionState>> lookup(std::string_view name,
                                                    std::chrono::nanoseconds timeout);
  Result<std::shared_ptr<RemoteRegionState>> open(const RegionDescriptor& descriptor,
                                                  std::chrono::nanoseconds timeout);
  Status revoke(std::uint64_t key, std::uint64_t region_id, std::chrono::nanoseconds timeout);
  void quarantine(std::uint64_t key, std::uint64_t region_id, std::shared_ptr<memory::Arena> arena,
                  memory::Block block);
  // For RemoteRegionState, in the gate: a window of the peer's memory.
  Result<std::shared_ptr<fabric::RemoteWindow>> import(const RegionDescriptor& descriptor,
                                                       core::Deadline deadline);

  const PeerInfo& peer() const { return peer_; }
  const std::string& peer_name() const { return peer_name_; }
  // Whether this thread runs one of the channel's callbacks, or is in a call of it.
  bool entered_by_this_thread() const;
  PeerState peer_state() const;
  std::uint64_t number() const { return number_; }
  ChannelStats stats() const;
  memory::ArenaStats landing_stats() const;

  // Channel life (channel_close.cc).
  Status close(std::chrono::nanoseconds timeout);
  // One step of an end that loses no byte on its way to a live peer: what is queued goes out, then
  // both sides end their connections. True when that is over, or not needed: call again until then,
  // or until the time is up, and then finish().
  bool part();
  // Drops link and connection, whatever is still out. False when a callback, or another thread that
  // finishes it, takes longer than that: call again.
  bool finish(core::Deadline deadline);
  // Called by the device's timer: silence, lookups that ran out, quarantine, a close that timed
  // out. `now` is when the turn began: it may be stopped in the middle. `absence` is how much later
  // that was than planned, which is not the peer's silence.
  void tick(std::chrono::nanoseconds now, std::chrono::nanoseconds absence);
  // The device's own names changed: parked lookups may find theirs.
  void answer_parked_lookups();

  // fabric::LinkObserver.
  void on_peer_dead(const Status& reason) override;
  void on_link_error(const Status& reason) override;
  void on_revoked() override;
  bool may_read(std::uint64_t key, std::uint64_t offset, std::uint64_t length) override;

 private:
  class Lane;
  class Intake;
  class ReturnIntake;
  class Discard;
  struct PendingRequest {
    bool answered = false;
    ReplyMessage reply;
  };
  struct ParkedLookup {
    LookupMessage message;
    core::Deadline deadline = core::Deadline::never();
  };
  struct Quarantined {
    std::uint64_t key = 0;
    std::uint64_t region_id = 0;
    std::shared_ptr<memory::Arena> arena;
    memory::Block block;
  };

  // LaneDriver.
  void poll_lanes(std::optional<Notification>* taken) override;
  // Where the target's CPU makes no progress, no poller asks who else polls.
  bool counts_drives() const override { return !capabilities_.cpu_free_target; }
  bool arm_lanes(std::vector<pollfd>& doorbells) override;
  void drive_ended() override;
  Status ended() const override;

  Status unusable(std::string_view operation) const;
  Status check(const RemoteRegionState* remote, const fabric::Operation& operation) const;
  // The peer has gone; whether what is pending may still end well: a peer that closed in good order
  // took what it received, and its answers may be on their way.
  bool may_still_end() const;
  // A peer that closed in good order keeps what we hold leases on, and lets us read it.
  bool may_still_read(const RemoteRegionState* remote, const fabric::Operation& operation) const;
  void count(const fabric::Operation& operation);
  std::shared_ptr<fabric::Link> link() const;
  // In the gate. Sees to it that what is pending goes on.
  Completion start_operation(const fabric::Operation& operation);
  Completion post_to_link(const fabric::Operation& operation);
  // Notified writes, where the fabric has no immediate.
  void lower_notified_writes();
  Status reach(RemoteRegionState& remote, std::string_view operation);
  fabric::Progress serve_lane(std::uint32_t lane);
  fabric::Progress serve_returns();
  struct PendingList {
    std::vector<std::weak_ptr<core::CompletionState>> entries;
    std::size_t prune_at = 64;
  };
  void track(const std::shared_ptr<core::CompletionState>& pending, PendingList& list);
  void abandon_pending(const Status& reason, bool reads_too);
  bool has_pending();
  void hand_over_unsent();
  void tick_quarantine();
  void expire_parked_lookups();
  Status revoke_all(core::Deadline deadline);

  // channel_close.cc.
  // No call begins any more, and those that wait are woken.
  void begin_closing();
  // What a close that timed out has left undone, as far as it needs no waiting.
  void go_on_closing();
  // Settles what is to be settled, in one thread at a time (settling_).
  Status settle(core::Deadline callbacks, core::Deadline peer);
  Status stop_callbacks(core::Deadline deadline);
  bool leave_pollers(bool return_lane_too, core::Deadline deadline);
  void end_lanes();
  void say_fin_if_due();
  bool finish_is_due();
  void finish_if_due();
  void drop_link();
  template <typename Holds>
  bool wait_for_state(std::unique_lock<std::mutex>& lock, core::Deadline deadline, Holds holds) {
    while (!holds()) {
      if (deadline.expired()) return false;
      state_changed_.wait_for(lock, std::min(deadline.remaining(), kLookAround));
    }
    return true;
  }

  // channel_lease.cc.
  void take_lend(Notification record);
  void take_returns(const Notification& record);
  void take_return(std::uint64_t lease);
  // Tells the peer of dropped leases until none is left; for who was first to add one.
  void tell_returns();
  Completion post_returns(const ReturnRecord& returns);
  void release_by_frames(const ReturnRecord& returns);
  // What forked children held back, and hold no more.
  void release_held();

  // channel_end.cc.
  bool peer_over() const;
  // Whether the inbox takes more. After the peer's end always: its lanes are emptied.
  bool has_room() const { return inbox_.has_room() || peer_over(); }
  void drain_lanes();
  void lane_drained();
  void tell_end_if_due();
  bool drop_end_handler(core::Deadline deadline);

  // channel_control.cc, on the loop's thread.
  void on_frame(FrameType type, ByteView body);
  void on_connection_end(const Status& reason);
  void serve_lookup(const LookupMessage& message);
  bool try_answer(const LookupMessage& message);
  void serve_open(const OpenMessage& message);
  void reply_with(std::uint64_t request, const PublishedRegion& published);
  void reply_error(std::uint64_t request, const Status& status);
  void take_reply(ReplyMessage& reply);
  // The peer broke the protocol: ends the channel on both sides with the reason. On the loop's
  // thread, or in a call of the link.
  void refuse(const Status& reason);
  // Lets the peer end the lanes, so that it learns the reason first; but not for long.
  void expect_cut();
  void cut_link(bool in_good_order);
  Status take_refusal(ByteView body);
  void send(FrameType type, const std::vector<std::byte>& body = {});
  // Sends a request and waits for its answer; not on the loop's thread, which brings it.
  Result<ReplyMessage> request(FrameType type, std::uint64_t request_id,
                               const std::vector<std::byte>& body, core::Deadline deadline,
                               std::string_view operation);
  Result<ReplyMessage> ask_for(std::string_view name, std::chrono::nanoseconds wait,
                               core::Deadline deadline);
  Result<std::shared_ptr<RemoteRegionState>> adopt(const ReplyMessage& reply,
                                                   core::Deadline deadline);
  void end_requests();
  // `good_order`: it said so itself.
  void peer_is(PeerState state, const Status& reason, bool good_order = false);
  // Once for each silence, when it has lasted for the detection time: a peer whose process ends
  // closes its connection a moment before its death is proven.
  void warn_of_silence();
  void heard();
  Result<std::shared_ptr<memory::Arena>> landing_arena();
  std::vector<std::shared_ptr<RegionState>> landing_regions() const;
  void release_landing();
  void reclaim_landing();

  const std::shared_ptr<DeviceState> device_;
  const std::uint64_t number_;
  // Fixed once named_: the link may report its peer's death before.
  std::atomic<bool> named_{false};
  std::string peer_name_;
  PeerInfo peer_;
  fabric::Capabilities capabilities_;

  // Data plane. raw_link_ is valid inside gate_; link_ outlives that for the slow paths.
  core::Gate gate_;
  fabric::Link* raw_link_ = nullptr;
  std::shared_ptr<fabric::NotifiedWrites> lowered_;  // null if the link does it itself
  core::Gate link_gate_;  // slow calls into the link; finish() waits for them
  mutable std::mutex link_mutex_;
  std::shared_ptr<fabric::Link> link_;
  std::mutex kept_mutex_;
  std::shared_ptr<void> kept_;
  NotificationInbox inbox_;
  std::vector<std::shared_ptr<Lane>> lanes_;  // the users', then the return lane
  std::atomic<bool> live_{false};             // lanes_ is complete
  std::atomic<std::uint32_t> undrained_{0};   // users' lanes that may hold something
  ReturnQueue returns_;
  memory::HeldBack<std::uint64_t> held_leases_;

  // Control plane.
  std::unique_ptr<ControlConnection> control_;
  std::atomic<std::int64_t> last_heard_ns_{0};
  std::atomic<std::int64_t> cut_due_ns_{0};  // when a refused peer's lanes are ended; 0 is never
  // A peer closed in good order: when what is still pending ends; 0 is never.
  std::atomic<std::int64_t> abandon_due_ns_{0};
  std::atomic<std::uint64_t> next_request_{1};
  std::mutex requests_mutex_;
  std::condition_variable answered_;
  std::map<std::uint64_t, PendingRequest> requests_;
  std::mutex parked_mutex_;
  std::vector<ParkedLookup> parked_;
  NameTable names_;
  LeaseTable leases_;

  // Memory that the peer may write.
  mutable std::mutex landing_mutex_;
  std::shared_ptr<memory::Arena> landing_;
  mutable std::mutex segments_mutex_;
  std::map<std::uint32_t, std::shared_ptr<memory::Segment>> landing_segments_;
  std::map<std::uint64_t, std::weak_ptr<RegionState>> landing_regions_;
  mutable std::mutex quarantine_mutex_;
  std::vector<Quarantined> quarantined_;

  std::mutex pending_mutex_;
  PendingList pending_;
  PendingList pending_reads_;  // a peer that has closed answers them as long as we hold leases

  // State. Transitions under state_mutex_.
  mutable std::mutex state_mutex_;
  std::condition_variable state_changed_;
  std::atomic<PeerState> peer_state_{PeerState::kAlive};
  std::atomic<bool> peer_gone_{false};  // its death is proven, however it left
  std::atomic<bool> parting_{false};  // this side ended its connections, and awaits the peer's ends
  Status peer_reason_;
  Status silence_reason_;        // while the peer is silent
  bool silence_warned_ = false;  // and the user knows
  std::atomic<bool> closing_{false};
  bool settling_ = false;     // a thread is in settle()
  bool lanes_ended_ = false;  // that thread's
  bool closed_ = false;
  Status close_status_;
  bool good_order_ = false;
  std::atomic<bool> drained_{false};  // the peer has gone, and users' lanes hold nothing more
  std::function<void(bool, const Status&)> end_handler_;
  std::uint32_t end_handlers_running_ = 0;
  bool fin_sent_ = false;
  bool fin_received_ = false;
  bool finished_ = false;     // finish() has begun: no lease is counted any more
  bool finishing_ = false;    // a thread is in finish()
  bool finish_over_ = false;  // and nothing is left to do
  std::uint64_t remote_leases_ = 0;

  core::Counter writes_, reads_, aliases_, bytes_written_, bytes_read_, bytes_aliased_;
  core::Counter notifications_sent_, messages_sent_, silences_;
  fabric::LinkCounters last_link_counters_;  // under link_mutex_, once the link is gone
};

}  // namespace farwrite::device
