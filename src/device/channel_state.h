// ChannelState: everything behind a Channel.
//
// It connects the objects that keep the states of a channel, and has no mutex of its own.
//
// A closed channel lingers while leases are out: a peer may look at our memory, or we at its,
// longer than the channel lives. BYE says "nothing of mine moves any more"; FIN says "I hold no
// lease of yours any more, and what is left in my lanes I shall not look at". When both have said
// FIN, or the peer is dead, the channel is finished and gone (channel_life.h).
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/counter.h"
#include "core/gate.h"
#include "core/inside.h"
#include "device/channel.h"
#include "device/channel_extension.h"
#include "device/channel_lanes.h"
#include "device/channel_life.h"
#include "device/channel_link.h"
#include "device/channel_operations.h"
#include "device/control_connection.h"
#include "device/control_messages.h"
#include "device/handshake.h"
#include "device/landing_memory.h"
#include "device/lease_returns.h"
#include "device/lease_table.h"
#include "device/notification_inbox.h"
#include "device/peer_requests.h"
#include "device/peer_times.h"
#include "device/region_requests.h"
#include "device/region_state.h"
#include "device/remote_leases.h"
#include "device/remote_region_state.h"
#include "fabric/fabric.h"
#include "memory/arena.h"
#include "memory/held_back.h"

namespace farwrite::device {

class DeviceState;

// How long the end of the last handle waits for callbacks and for the peer.
inline constexpr std::chrono::nanoseconds kSettle = std::chrono::seconds(1);
// However short the timeout of a close() is, callbacks that do not block return within this.
inline constexpr std::chrono::nanoseconds kCallbackGrace = std::chrono::milliseconds(100);

class ChannelState final : public fabric::LinkObserver,
                           private ChannelLanes::Observer,
                           public std::enable_shared_from_this<ChannelState> {
 public:
  // The peer is not known yet: the handshake needs the channel as the link's observer.
  explicit ChannelState(std::shared_ptr<DeviceState> device);
  ~ChannelState() override;

  // Before the handshake: takes what a process may run out of, so that neither side has a channel
  // that the other lacks. kResourceExhausted.
  Status open() { return inbox_.open(); }
  // Second half of construction, after the handshake: goes live on the event loop and pollers.
  Status start(HandshakeResult handshake, std::string peer_name,
               std::unique_ptr<core::ByteStream> stream);
  // The handle a user gets: the channel closes when its last copy is gone.
  std::shared_ptr<ChannelState> user_handle();

  // What Channel says, under the same names (channel_transfer.cc).
  Completion post(RemoteRegionState* remote, std::uint32_t lane, fabric::Operation operation);
  // A notified write by the short way of its lane. False: nothing was notified, and post() does it
  // or says why not.
  bool write_small(RemoteRegionState* remote, std::uint64_t offset, ByteView source,
                   std::uint32_t tag, std::uint32_t lane);
  Status tell(ByteView message, std::uint32_t tag, std::uint32_t lane);
  Result<Alias> alias(const std::shared_ptr<RemoteRegionState>& source, std::uint64_t offset,
                      std::uint64_t length, core::Deadline deadline);
  void drive(const std::function<void()>& post, const std::function<bool()>& over,
             const std::function<void(Notification)>& take, core::Deadline deadline);
  void wake_drivers();
  void take_returns(bool take);
  void take_waiting_returns();
  // Takes a notification that is all tag by the short way. False: the calls below do it or say why
  // not.
  bool take_bare(bool waits, std::uint32_t& tag);
  Result<Notification> wait_notification(std::chrono::nanoseconds timeout);
  Result<std::optional<Notification>> try_notification();
  Result<int> notification_descriptor();
  Result<bool> arm_notifications();
  void disarm_notifications();
  // A thread has taken notifications that concern the thread that waits on the descriptor.
  void wake_event_loop() { inbox_.wake_event_loop(); }
  Status on_notification(std::function<void(Notification)> handler,
                         std::chrono::nanoseconds timeout);
  std::uint64_t max_message_bytes() const;
  bool maps_peer_memory() const { return capabilities_.maps_peer_memory; }
  bool reads_in_order() const { return capabilities_.serves_reads; }
  Status on_end(std::function<void(bool good_order, const Status& reason)> handler);

  // Leases without a round trip (channel_lease.cc).
  Completion lend(ByteView message, ByteView memory, std::function<void()> returned,
                  std::uint32_t tag, std::uint32_t lane);
  void release_remote(std::uint64_t lease);
  // The same, once no forked child can look at what was leased at a ForkedReaders::stamp().
  void hold_remote(std::uint64_t lease, std::uint64_t made);
  OpenedRegions& opened() { return opened_; }

  // For the transfer layer. Made at the first call.
  std::shared_ptr<ChannelExtension> extension(
      const std::function<std::shared_ptr<ChannelExtension>()>& make);
  // As those of Channel.
  bool claim_notifications() {
    if (extended_.load() && extension_->in_use()) return false;
    return !notifications_claimed_.exchange(true);
  }
  void release_notifications() { notifications_claimed_.store(false); }
  bool notifications_claimed() const { return notifications_claimed_.load(); }
  const fabric::Capabilities& capabilities() const { return capabilities_; }
  std::uint64_t registrations() const;
  std::uint64_t send_limit() const;  // bytes that the peer may hold in leases
  // As DeviceState::run_later.
  void run_later(std::chrono::nanoseconds delay, std::function<void()> function);
  // A message of the peer's transfer layer breaks its protocol: ends the channel on both sides.
  void refuse_message(const Status& reason);

  // Memory and names (channel_memory.cc).
  Result<std::shared_ptr<RegionState>> allocate(std::uint64_t bytes, MemoryKind kind);
  Status publish(std::string_view name, PublishedRegion published);
  Result<std::shared_ptr<RemoteRegionState>> lookup(std::string_view name,
                                                    std::chrono::nanoseconds timeout);
  Result<std::shared_ptr<RemoteRegionState>> open(const RegionDescriptor& descriptor,
                                                  std::chrono::nanoseconds timeout);
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
  memory::ArenaStats landing_stats() const { return landing_.stats(); }

  // Channel life (channel_close.cc).
  Status close(std::chrono::nanoseconds timeout);
  // One step of an end that loses no byte on its way to a live peer: what is queued goes out, then
  // both sides end their connections. True when that is over, or not needed: call again until then,
  // or until the time is up, and then finish().
  bool part();
  // Drops link and connection, whatever is still out. False when a callback, or another thread that
  // finishes it, takes longer than that: call again.
  bool finish(core::Deadline deadline);
  // In place of close(), for a channel that no user has: the peer may have its own by now, and is
  // told why it ends. finish() follows.
  void give_up(const Status& reason);
  // Called by the device's timer: silence, lookups that ran out, quarantine, a close that timed
  // out. `now` is when the turn began: it may be stopped in the middle. `absence` is how much later
  // that was than planned, which is not the peer's silence.
  void tick(std::chrono::nanoseconds now, std::chrono::nanoseconds absence);
  // On the control loop: refuses parked lookups when their time is over. Called again before long.
  void expire_lookups_in_time();
  // On the control loop: names changed, and parked lookups may find theirs.
  void answer_parked_lookups() { peer_requests_.answer_parked(); }

  // fabric::LinkObserver.
  void on_peer_dead(const Status& reason) override;
  Status reason_of_end(const Status& death) const override;
  bool heard_all() const override { return heard_all_.load() || peer_over(); }
  void on_link_error(const Status& reason) override;
  void on_revoked() override;
  bool may_read(std::uint64_t key, std::uint64_t offset, std::uint64_t length) override;

 private:
  // ChannelLanes::Observer.
  void on_lend(Notification&& record) override;
  void on_return(const Notification& record) override;
  void on_lanes_drained() override;

  // Why `operation` fails, once this side has closed the channel or the peer is over.
  Status unusable(std::string_view operation) const;
  Status check(const RemoteRegionState* remote, std::uint32_t lane,
               const fabric::Operation& operation) const;
  // Fills in Operation::gpu; the window is there already.
  Status find_gpu(fabric::Operation& operation) const;
  // Through send memory.
  Completion post_staged(std::uint32_t lane, fabric::Operation operation);
  // A peer that closed normally keeps what we hold leases on, and lets us read it.
  bool may_still_read(const RemoteRegionState* remote, const fabric::Operation& operation) const;
  Status reach(RemoteRegionState& remote, std::string_view operation, core::Deadline deadline);

  // channel_close.cc.
  // No call begins any more, and those that wait are woken.
  void begin_closing();
  // What a close that timed out has left undone, as far as it needs no waiting.
  void go_on_closing();
  // Settles what is to be settled, in one thread at a time.
  Status settle(core::Deadline callbacks, core::Deadline peer);
  Status stop_callbacks(core::Deadline deadline);
  void say_fin_if_due();
  bool finish_is_due();
  void finish_if_due();
  void drop_link();

  // channel_lease.cc.
  void take_return(std::uint64_t lease);
  Completion post_return(const fabric::Operation& record);
  // What forked children held back, and hold no more.
  void release_held();
  // Once the peer and its forked children are gone. On the loop's thread.
  void end_leases_of_the_dead();

  // channel_end.cc.
  bool peer_over() const { return life_.peer_over(); }
  void tell_end_if_due();

  // channel_control.cc, on the loop's thread.
  void on_frame(ControlFrameType type, ByteView body);
  void on_connection_end(const Status& reason);
  // The peer broke the protocol: ends the channel on both sides with the reason. On the loop's
  // thread, or in a call of the link.
  void refuse(const Status& reason);
  void cut_link(bool in_good_order);
  Status take_refusal(ByteView body);
  void send(ControlFrameType type, const std::vector<std::byte>& body = {});
  Result<std::shared_ptr<RemoteRegionState>> adopt(const ReplyMessage& reply,
                                                   core::Deadline deadline);
  // `good_order`: it said so itself.
  void peer_is(PeerState state, const Status& reason, bool good_order = false);
  // Once for each silence, when it has lasted for the detection time: a peer whose process ends
  // closes its connection a moment before its death is proven.
  void warn_of_silence();
  void heard();
  memory::ArenaOptions landing_options() const;

  const std::shared_ptr<DeviceState> device_;
  const std::uint64_t number_;
  // Fixed once named_: the link may report its peer's death before.
  std::atomic<bool> named_{false};
  std::string peer_name_;
  PeerInfo peer_;
  fabric::Capabilities capabilities_;

  // Data plane.
  core::Gate gate_;
  ChannelLink link_;
  NotificationInbox inbox_;
  ChannelLanes lanes_{this, link_, life_, inbox_, *this};
  ChannelOperations operations_{this, gate_, link_, life_, lanes_};
  std::once_flag extension_made_;
  std::shared_ptr<ChannelExtension> extension_;
  std::atomic<bool> extended_{false};  // extension_ is there
  std::atomic<bool> notifications_claimed_{false};

  // Leases of the peer on memory of this side, and the other way around.
  LeaseTable leases_;
  RemoteLeases remote_leases_;
  OpenedRegions opened_;
  LeaseReturns lease_returns_;
  memory::HeldBack<std::uint64_t> held_leases_;  // that forked children may still read

  // Control plane.
  std::unique_ptr<ControlConnection> control_;
  PeerTimes times_;
  core::Counter silences_;
  LandingMemory landing_{link_, peer_name_};
  RegionRequests requests_;
  PeerRequests peer_requests_;

  ChannelLife life_;
  bool lanes_ended_ = false;            // the thread's that settles
  std::atomic<bool> heard_all_{false};  // the connection has ended
  std::atomic<bool> parting_{false};  // this side ended its connections, and awaits the peer's ends
  std::atomic<bool> cut_off_{false};  // the peer was refused, and had time to read why
};

}  // namespace farwrite::device
