// ReplyTaker: which thread takes what a box's server sends to a client.
//
// The channel's poller does, by a handler. But a thread that waits for its own answer would be
// woken second then, after the poller. So where only one thread waits and no other answer is
// awaited, the handler is removed, and that thread polls the channel (Channel::drive()). Answers
// that call the program belong on the poller: the caller that asks for one calls make_way() first.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "core/completion.h"
#include "core/deadline.h"
#include "core/inside.h"
#include "core/mutex.h"
#include "device/channel.h"
#include "farwrite/status.h"

namespace farwrite::box {

// Thread-safe.
class ReplyTaker : public std::enable_shared_from_this<ReplyTaker> {
 public:
  // `take` gets each message, and must not keep the channel open.
  ReplyTaker(Channel channel, std::function<void(Notification)> take)
      : channel_(std::move(channel)), take_(std::move(take)) {}

  Status start() { return channel_.on_notification(take_); }
  // In a thread that waits for what it posts: `post()`, and then takes messages until `over()`.
  // Returns earlier where the thread has to wait in another way, and then the poller takes them.
  // `alone`: whether no other answer is awaited than what `post` asks for.
  void drive(const std::function<void()>& post, const std::function<bool()>& over,
             const std::function<bool()>& alone, core::Deadline deadline);
  // How often a thread has taken the messages itself.
  std::uint64_t drives() const { return drives_.load(); }
  // Whether this thread is in drive(), and waits for the answer to what it posts.
  bool waits_here() const { return core::Inside::is(this); }
  // The poller takes the messages for a while.
  void make_way();
  // No thread drives until the read has settled: that may call the program at any time.
  void make_way_until_settled(const Completion& read);
  // The channel has ended: calls `end` behind `take` of all that has arrived. Nothing drives again.
  void finish(std::function<void()> end);

 private:
  // How long a poll under way may take, which moves bytes at most.
  static constexpr std::chrono::nanoseconds kChange = std::chrono::seconds(5);

  // For as long as a thread drives.
  class DriversTurn {
   public:
    DriversTurn(ReplyTaker& taker, const std::function<bool()>& alone);
    ~DriversTurn();
    DriversTurn(const DriversTurn&) = delete;
    DriversTurn& operator=(const DriversTurn&) = delete;
    explicit operator bool() const { return begun_; }

   private:
    ReplyTaker& taker_;
    const bool begun_;
  };

  bool remove_handler(const std::function<bool()>& alone);
  void give_to_poller();
  Status set_handler(std::chrono::nanoseconds timeout = kChange) FW_REQUIRES(change_);
  // For what the server says unasked: if no thread drives for a while, the poller takes it.
  void watch();
  void look_for_idleness();
  void call_end();
  // On the control loop. False without memory for that.
  bool later(std::chrono::nanoseconds delay, void (ReplyTaker::*call)()) noexcept;

  Channel channel_;
  const std::function<void(Notification)> take_;

  // Who stores in one of these looks at the other afterwards.
  std::atomic<int> waiting_{0};      // threads in drive()
  std::atomic<bool> driven_{false};  // the channel has no handler
  std::atomic<std::uint64_t> drives_{0};
  std::atomic<std::uint64_t> seen_drives_{0};  // at the last watch()
  std::atomic<bool> watched_{false};           // look_for_idleness() will be called
  std::atomic<int> unsettled_{0};              // reads of make_way_until_settled()
  std::atomic<std::int64_t> not_before_ns_{0};
  // Guards the change of the handler, under which that may run.
  core::Mutex change_{core::LockRank::kUserCode, 0, core::Siblings::kAnyOrder};

  core::Mutex mutex_{core::LockRank::kBox};
  bool driving_ FW_GUARDED_BY(mutex_) = false;
  bool finished_ FW_GUARDED_BY(mutex_) = false;
  std::function<void()> end_ FW_GUARDED_BY(mutex_);  // waits for a thread that drives
};

}  // namespace farwrite::box
