// Poller: one thread that serves the lanes of one completion queue (paper section 3.1).
//
// It serves a lane while somebody needs it to: the fabric has no other way to make progress, a
// handler takes the channel's notifications, or an operation is pending. A lane whose user waits
// for notifications himself is left alone, so that a wake-up goes straight to him.
#pragma once

#include <poll.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "core/fork_guard.h"
#include "core/unique_fd.h"
#include "fabric/fabric.h"
#include "farwrite/status.h"

namespace farwrite::device {

// One lane of a channel, as a poller sees it.
class PolledLane {
 public:
  virtual ~PolledLane() = default;
  virtual bool wants_poller() const = 0;
  // Of a lane that does not want one: whether to ask again in a moment. False: somebody kicks.
  virtual bool look_again() { return false; }
  // Whether somebody waits for what the lane brings, so that polling for a while pays.
  virtual bool worth_spinning() const { return true; }
  virtual fabric::Progress serve() = 0;
  virtual fabric::Doorbell arm() = 0;
};

// Thread-safe.
class Poller {
 public:
  // `spin`: how long the thread polls after the last event before it blocks.
  static Result<std::unique_ptr<Poller>> start(std::chrono::nanoseconds spin);
  ~Poller();
  Poller(const Poller&) = delete;
  Poller& operator=(const Poller&) = delete;

  void add(std::shared_ptr<PolledLane> lane);
  // After this returns the lane is not being served; from the poller's own thread, it is not served
  // again.
  void remove(const std::shared_ptr<PolledLane>& lane);
  // Something changed: a handler was set, an operation is pending.
  void kick();
  pthread_t thread() { return thread_.native_handle(); }
  bool on_own_thread() const { return std::this_thread::get_id() == thread_.get_id(); }

 private:
  Poller(std::chrono::nanoseconds spin, core::UniqueFd wake);
  void run();
  bool was_removed(const PolledLane& lane) const;
  // What one round over the lanes found.
  struct Round {
    bool busy = false;     // something was delivered
    bool pending = false;  // work is left that no doorbell announces
    bool spins = false;    // a lane is worth polling for a while
  };
  Round serve_all(std::vector<std::shared_ptr<PolledLane>>& lanes);
  // Sleeps until a doorbell rings; how long depends on what was left. True if one rang.
  bool sleep(std::vector<pollfd>& doorbells, bool pending, bool look_again);

  const std::chrono::nanoseconds spin_;
  const core::ForkGuard fork_guard_;
  const core::UniqueFd wake_;

  std::mutex mutex_;
  std::condition_variable round_over_;
  std::vector<std::shared_ptr<PolledLane>> lanes_;
  bool in_round_ = false;
  std::uint64_t rounds_ = 0;
  bool stopping_ = false;
  std::vector<PolledLane*> removed_in_round_;  // poller's thread only
  std::chrono::nanoseconds pause_{0};          // poller's thread only
  std::thread thread_;
};

}  // namespace farwrite::device
