// ChannelLanes: a channel's lanes, and who polls them when.
//
// A user's thread that waits for notifications polls the users' lanes itself (LaneDriver). Pollers
// serve them where nothing else does, and they serve the return lane, unless take_returns() or
// drive(). After the peer's end they empty every lane, whichever thread took the notifications
// before.
#pragma once

#include <poll.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/deadline.h"
#include "core/gate.h"
#include "core/trace.h"
#include "device/channel.h"
#include "device/channel_life.h"
#include "device/channel_link.h"
#include "device/notification_inbox.h"
#include "device/poller.h"
#include "fabric/fabric.h"
#include "farwrite/status.h"

namespace farwrite::device {

// Thread-safe, without a mutex. Calls of the link are made inside the channel's gate, by a poller,
// or through a ChannelLink::LinkUse.
class ChannelLanes final : public LaneDriver {
 public:
  // What the lanes bring beside notifications. Called by the thread that polls.
  class Observer {
   public:
    virtual ~Observer() = default;
    // The records of channel_records.h.
    virtual void on_lend(Notification&& record) = 0;
    virtual void on_return(const Notification& record) = 0;
    // The peer is over, and the users' lanes hold nothing more. Once.
    virtual void on_lanes_drained() = 0;
  };

  // All of them outlive it. A thread that serves a lane is inside `channel` (core/inside.h).
  ChannelLanes(const void* channel, const ChannelLink& link, const ChannelLife& life,
               NotificationInbox& inbox, Observer& observer)
      : channel_(channel), link_(link), life_(life), inbox_(inbox), observer_(observer) {}

  // Once, and before any other call: gives the lanes to pollers. `self` is this, kept by the
  // channel's reference count.
  void start(const std::weak_ptr<ChannelLanes>& self, const PeerInfo& peer,
             const std::string& peer_name, const fabric::Capabilities& capabilities,
             const std::function<Poller&()>& next_poller);
  // Whether start() has come that far that the lanes are there. At any time.
  bool started() const { return started_.load(); }

  // An operation is pending on `lane`, which its poller moves on. A flush may wait on any lane.
  void expect_progress(fabric::OperationKind kind, std::uint32_t lane);
  // A thread that polled goes: what it could not send, and answers that another thread awaits, are
  // the pollers' from here on.
  void hand_over_rest() {
    if (left_behind_.load(std::memory_order_relaxed) != 0) [[unlikely]]
      hand_over(left_behind_.exchange(0));
  }
  // The caller polls in a loop, and arms at its end.
  void disarm();
  // Pollers look again which lanes want them.
  void kick();
  // The peer is over: pollers empty the lanes. At any time; start() does it if it comes later.
  void drain();
  // Nothing of this side follows on the users' lanes, and no thread waits for notifications.
  void end();
  // Pollers do not serve the lanes again. False after the deadline: call again.
  bool leave_pollers(bool return_lane_too, core::Deadline deadline);

  // For a thread that waits for what it posts: `post()`, and then passes to `take` what arrives
  // until `over()`. The reads that it posts need no poller, and leases that come back wake none
  // before it sleeps. One thread at a time, and none that waits for notifications beside it.
  // Returns earlier where it has to wait in another way: the deadline has passed, a handler was
  // set, the peer or the channel has ended.
  void drive(const std::function<void()>& post, const std::function<bool()>& over,
             const std::function<void(Notification)>& take, core::Deadline deadline,
             std::chrono::nanoseconds spin);

  // For a channel on which one thread waits again and again. With `take`, that thread also polls
  // the return lane and runs the callbacks of the leases that come back; without, a poller does.
  // While the thread is busy, take_waiting_returns() does the same in any thread, as each tick of
  // the channel does. On a fabric whose lanes are not this process's memory, `take` has no effect.
  void take_returns(bool take);
  void take_waiting_returns() {
    if (takes_returns_.load() && lane(user_lanes_).worth_polling()) (void)serve_returns();
  }

  // The short way to the next notification, if that is all tag, on the only lane. False: there is
  // no such way, or nothing came while it looked, with `spins` some times. It is
  // outside the gate, and asks it: what closes the gate waits for no_longer_bare() of the inbox,
  // too.
  bool take_bare(const core::Gate& gate, bool spins, std::uint32_t& tag);

  // LaneDriver.
  void poll_lanes(std::optional<Notification>* taken) override;
  // Where the target's CPU makes no progress, no poller asks who else polls.
  bool counts_drives() const override { return !cpu_free_target_; }
  bool arm_lanes(std::vector<pollfd>& doorbells) override;
  const std::string& peer_name() const override { return peer_name_; }
  PeerState peer_state() const override { return life_.peer_state(); }
  Status ended() const override;
  void drive_ended() override { kick(); }

 private:
  class ChannelLane;
  class Intake;
  class ReturnIntake;
  class Discard;
  class ReturnTurn;

  fabric::Lane& lane(std::uint32_t index) const { return link_.get()->lane(index); }
  fabric::Progress serve(std::uint32_t lane);
  fabric::Progress serve_returns();
  // Whether the inbox takes more. After the peer's end always: its lanes are emptied.
  bool has_room() const { return inbox_.has_room() || life_.peer_over(); }
  // Whether threads that wait take what comes on the return lane.
  bool returns_are_ours() const {
    return takes_returns_.load(std::memory_order_relaxed) ||
           return_turns_.load(std::memory_order_relaxed) > 0;
  }
  void trace(std::uint64_t bytes, std::uint32_t lane, std::uint32_t tag) const {
    core::trace_instant("notification received", fabric_, peer_name_, bytes, lane, tag);
  }
  void lane_is_drained();
  void hand_over(std::uint64_t lanes);  // by the bits of left_behind_

  const void* const channel_;
  const ChannelLink& link_;
  const ChannelLife& life_;
  NotificationInbox& inbox_;
  Observer& observer_;

  // Fixed by start().
  std::vector<std::shared_ptr<ChannelLane>> lanes_;  // the users', then the return lane
  std::uint32_t user_lanes_ = 0;
  bool cpu_free_target_ = false;
  bool polls_memory_ = false;  // a look at a lane reads this process's memory
  std::string_view fabric_;
  std::string peer_name_;

  std::atomic<bool> started_{false};
  std::atomic<bool> takes_returns_{false};
  std::atomic<int> return_turns_{0};  // threads in drive() that take them
  // A bit for each lane in which a user's thread has left something to be waited for.
  static_assert(kMaxLanes <= 64);
  std::atomic<std::uint64_t> left_behind_{0};
  std::atomic<std::uint32_t> undrained_{0};  // users' lanes that may hold something
};

}  // namespace farwrite::device
