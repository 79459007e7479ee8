// Poller: one thread that serves the lanes of one completion queue (paper section 3.1).
//
// It serves a lane while something needs it to: the fabric has no other way to make progress, a
// handler takes the channel's notifications, or an operation is pending. A lane whose user waits
// for notifications itself is left alone, so that a wake-up goes straight to it.
#pragma once

#include <poll.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "core/deadline.h"
#include "core/fork_guard.h"
#include "core/mutex.h"
#include "core/unique_fd.h"
#include "fabric/fabric.h"
#include "farwrite/status.h"

namespace farwrite::device {

// One lane of a channel, as a poller sees it.
class PolledLane {
 public:
  virtual ~PolledLane() = default;
  virtual bool wants_poller() const = 0;
  // Of a lane that does not want one: whether to ask again in a moment. False: something kicks.
  virtual bool look_again() { return false; }
  // Whether a caller waits for what the lane brings, so that polling for a while pays.
  virtual bool worth_spinning() const { return true; }
  virtual fabric::Progress serve() = 0;
  virtual fabric::Doorbell arm() = 0;

 protected:
  // Whether the poller sleeps on the lane's doorbell, or will look at wants_poller() before it
  // sleeps again.
  bool armed() const { return armed_.load(); }

 private:
  friend class Poller;
  std::atomic<bool> removed_{false};
  std::atomic<bool> armed_{false};
};

// Thread-safe.
class Poller {
 public:
  // `spin`: how long the thread polls after the last event before it blocks. The thread runs inside
  // `owner` (core/inside.h).
  static Result<std::unique_ptr<Poller>> start(std::chrono::nanoseconds spin,
                                               const void* owner = nullptr);
  ~Poller();
  Poller(const Poller&) = delete;
  Poller& operator=(const Poller&) = delete;

  // A lane is added once.
  void add(std::shared_ptr<PolledLane> lane);
  // The lane is not served again. True once it is not being served, by another thread than this
  // one, either; false when the deadline passes first: call again. Other lanes do not delay this.
  bool remove(const std::shared_ptr<PolledLane>& lane, core::Deadline deadline);
  // Something changed: a handler was set, an operation is pending.
  void kick();

 private:
  Poller(std::chrono::nanoseconds spin, core::UniqueFd wake)
      : spin_(spin), wake_(std::move(wake)) {}
  void run();
  // Marks a lane as being served. False: it was removed, and nothing of it may be called.
  bool begin(const PolledLane& lane);
  void end() { served_.store(nullptr); }
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

  core::Mutex mutex_{core::LockRank::kDeviceTables};
  std::vector<std::shared_ptr<PolledLane>> lanes_ FW_GUARDED_BY(mutex_);
  bool stopping_ FW_GUARDED_BY(mutex_) = false;
  // remove() stores removed_ and reads served_; begin() stores served_ and reads removed_.
  std::atomic<const PolledLane*> served_{nullptr};
  std::chrono::nanoseconds pause_{0};  // poller's thread only
  std::thread thread_;
};

}  // namespace farwrite::device
