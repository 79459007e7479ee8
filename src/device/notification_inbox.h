// NotificationInbox: where a channel's notifications wait for the user, or go to its handler.
#pragma once

#include <poll.h>

#include <atomic>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "core/counter.h"
#include "core/deadline.h"
#include "core/inside.h"
#include "core/mutex.h"
#include "core/poll_until.h"
#include "core/unique_fd.h"
#include "device/channel.h"
#include "device/mode_lock.h"
#include "fabric/fabric.h"
#include "farwrite/status.h"

namespace farwrite::device {

// What a thread that waits for a notification does meanwhile: it polls the lanes itself, so that
// nothing has to wake it up a second time.
class LaneDriver {
 public:
  virtual ~LaneDriver() = default;
  // The first that arrives goes to `taken`, if there is one and nothing is queued.
  virtual void poll_lanes(std::optional<Notification>* taken) = 0;
  // Whether any thread asks is_driven(), drives() or call_at_end_of_drive().
  virtual bool counts_drives() const { return true; }
  // Fills in the doorbells to sleep on; false if something is there already.
  virtual bool arm_lanes(std::vector<pollfd>& doorbells) = 0;
  // Why nothing will come any more; ok while something may.
  virtual Status ended() const = 0;
  // For errors.
  virtual const std::string& peer_name() const = 0;
  virtual PeerState peer_state() const = 0;
  // Nothing polls the lanes any more, and call_at_end_of_drive() asked to be told.
  virtual void drive_ended() {}
};

// Thread-safe.
class NotificationInbox final : public fabric::EventSink {
 public:
  // Before anything else; fails when descriptors have run out.
  Status open();

  // Held around every poll of a lane, so that a handler never changes in the middle of a delivery.
  class Delivery {
   public:
    // Waits for a change of the handler, which may be calling the new one.
    explicit Delivery(NotificationInbox& inbox);
    // Waits for nothing: not begun() while the handler changes, and then the caller leaves the
    // lane. For a user's thread, which may hold what the handler waits for, like Python's lock.
    Delivery(NotificationInbox& inbox, std::try_to_lock_t);
    ~Delivery();
    Delivery(const Delivery&) = delete;
    Delivery& operator=(const Delivery&) = delete;
    bool begun() const { return begun_; }

   private:
    ModeLock& mode_;
    const core::Inside inside_;
    const bool begun_;
  };

  // For as long as a thread waits.
  class Drive {
   public:
    Drive(NotificationInbox& inbox, LaneDriver& driver);
    ~Drive();
    Drive(const Drive&) = delete;
    Drive& operator=(const Drive&) = delete;

   private:
    NotificationInbox& inbox_;
    LaneDriver& driver_;
    const bool counted_;
  };

  // Under a Delivery: to the handler, or into the queue.
  void on_notification(Notification&& notification) override {
    deliver(std::move(notification), nullptr);
  }
  // The same for the thread that polls the lane on its own behalf: if the queue is empty, the first
  // one goes to `taken` without a way through the queue. A lane keeps its order: its earlier ones
  // were queued before this thread could poll it, so an empty queue says that they are taken.
  void deliver(Notification&& notification, std::optional<Notification>* taken);

  // Waits for deliveries under way; kDeadlineExceeded, and nothing changes, when they take longer.
  Status set_handler(std::function<void(Notification)> handler, core::Deadline deadline);
  bool has_handler() const { return has_handler_.load(std::memory_order_relaxed); }

  // Whether another notification may be queued: a sender has to wait for a user who takes none.
  bool has_room() const override { return has_handler() || queued_.load() < kMaxQueued; }

  // Whether a user's thread polls the lanes, or did so until a moment ago.
  bool is_driven() const;
  // Counts the waits.
  std::uint64_t drives() const { return drives_.load(); }
  // Has LaneDriver::drive_ended() called when nothing waits any more; false if nothing does now.
  bool call_at_end_of_drive();

  std::optional<Notification> try_take() {
    if (queued_.load(std::memory_order_acquire) == 0) return std::nullopt;
    return take_queued();
  }
  // The short way past the queue, for a channel with one lane: `take(queued)` takes a notification
  // that is all tag from it, while nothing is queued. False where a handler takes them, or another
  // thread is in here. No Delivery, whose end is another atomic addition for a thread that has what
  // it waited for: a change of the handler waits for no_longer_bare() instead.
  template <typename Take>
  bool take_bare(const Take& take) {
    if (queued_.load() > 0 || taking_bare_.exchange(true)) return false;
    const bool taken = !has_handler_.load() && take(std::as_const(queued_));
    if (taken) bare_.store(bare_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    taking_bare_.store(false, std::memory_order_release);
    return taken;
  }
  // Waits until the thread that is in take_bare() has left; false after the deadline.
  bool no_longer_bare(core::Deadline deadline) const {
    return core::poll_until([this] { return !taking_bare_.load(); }, deadline);
  }
  // What nothing will take any more: it may hold the peer's memory.
  void drop_queued();
  // Polls for `spin`, then blocks. What has arrived comes before driver.ended().
  Result<Notification> take(LaneDriver& driver, core::Deadline deadline,
                            std::chrono::nanoseconds spin);
  // As take(), for a thread in a Drive that also waits for something else: nothing once `over()`.
  // What makes that true in another thread calls wake_drivers().
  Result<std::optional<Notification>> take_until(LaneDriver& driver, core::Deadline deadline,
                                                 std::chrono::nanoseconds spin,
                                                 const std::function<bool()>& over);
  // For an event loop: what it waits on, made by the first call. kResourceExhausted.
  Result<int> descriptor();
  // Before each wait on the descriptor. False: there may be something to take already.
  Result<bool> arm(LaneDriver& driver);
  // Makes the descriptor readable, if an event loop may wait on it: something has taken for it.
  void wake_event_loop();
  // Makes all blocked threads look at driver.ended() again.
  void wake_all();
  // Makes the threads in take_until() look at what they wait for.
  void wake_drivers() {
    if (has_takers_until()) wake_all();
  }
  bool has_takers_until() const { return takers_until_.load() > 0; }
  // A doorbell was armed for another thread, which may have silenced the ring for one that sleeps.
  void ring_sleeping_driver();

  std::uint64_t notifications() const { return notifications_.value() + bare_.load(); }
  std::uint64_t messages() const { return messages_.value(); }

 private:
  static constexpr std::size_t kMaxQueued = 256;

  std::optional<Notification> take_queued();
  // Ok without `next`: over().
  template <typename Over>
  Status take_driving(LaneDriver& driver, core::Deadline deadline, std::chrono::nanoseconds spin,
                      const Over& over, std::optional<Notification>& next);
  template <typename Over>
  void block(LaneDriver& driver, std::chrono::nanoseconds longest, const Over& over);
  template <typename Over>
  void sleep_on_doorbells(LaneDriver& driver, std::chrono::nanoseconds longest, const Over& over);
  // Of a thread that blocks, and of an event loop that waits.
  void ring_sleeper();

  ModeLock mode_;
  std::function<void(Notification)> handler_ FW_GUARDED_BY(mode_);
  std::atomic<bool> has_handler_{false};

  core::Mutex mutex_{core::LockRank::kDeviceTables};
  core::CondVar changed_;
  std::deque<Notification> queue_ FW_GUARDED_BY(mutex_);
  std::uint64_t alarms_ FW_GUARDED_BY(mutex_) = 0;  // wake_all() calls
  bool driven_ FW_GUARDED_BY(mutex_) =
      false;  // one waiter sleeps on the doorbells, the others on changed_

  std::atomic<bool> taking_bare_{false};  // a thread is in take_bare()
  std::atomic<std::uint64_t> bare_{0};    // taken there; stored by that thread
  std::atomic<std::size_t> queued_{0};    // mirrors queue_.size(), to look without the lock
  std::atomic<std::size_t> blocked_{0};
  std::atomic<int> takers_until_{0};  // threads in take_until()
  std::atomic<std::uint32_t> drivers_{0};
  std::atomic<std::uint64_t> drives_{0};
  std::atomic<std::int64_t> left_ns_{0};  // when the last driver left
  std::atomic<bool> call_at_end_{false};
  std::atomic<bool> sleeping_{false};
  core::UniqueFd wake_;  // an eventfd, for what no doorbell announces

  core::Mutex loop_mutex_{core::LockRank::kDevice};  // guards what an event loop waits on
  core::UniqueFd loop_ FW_GUARDED_BY(loop_mutex_);   // an epoll of loop_wake_ and the doorbells
  core::UniqueFd
      loop_wake_;  // made before armed_; unlike wake_, threads that block never silence it
  std::vector<pollfd> loop_bells_ FW_GUARDED_BY(loop_mutex_);  // in it, behind loop_wake_
  std::atomic<bool> armed_{false};                             // the event loop is to be woken
  std::atomic<bool> rung_{false};  // loop_wake_ was rung since arm() silenced it

  core::Counter notifications_, messages_;
};

}  // namespace farwrite::device
