// Wire: the thread that executes a software RNIC's send requests, and its clock.
//
// Each pair's requests run in order, in turns of a few packets, so that pairs interleave and a
// reader who does not wait for the notification sees half a write.
#pragma once

#include <infiniband/verbs.h>

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "simulated/random.h"
#include "verbs_double/queue_pair.h"

namespace farwrite::verbs_double {

struct Adapter;

class Wire {
 public:
  explicit Wire(Adapter& adapter);
  ~Wire();

  // There is something to do for this pair.
  void ring(std::shared_ptr<QueuePair> pair);
  // Runs `action` on the thread, unless it ends before.
  void at(Clock::time_point when, std::function<void()> action);

 private:
  struct Turn {
    std::shared_ptr<QueuePair> pair;
    Clock::time_point from;
    bool rung = true;
  };
  enum class Step { kAgain, kWait, kDone, kFailed };
  struct Outcome {
    Step step = Step::kDone;
    Clock::time_point until{};
    ibv_wc_status status = IBV_WC_SUCCESS;
    std::uint32_t vendor_error = 0;
  };

  void run();
  // When to come again; none if there is nothing to do.
  std::optional<Clock::time_point> turn(QueuePair& pair);
  void flush(QueuePair& pair);  // under its lock
  Outcome execute(QueuePair& pair, QueuePair& peer, SendRequest& request);
  // Waits, or gives up, if the peer is not to be reached now. None: a visit there has begun.
  std::optional<Outcome> wait_for(QueuePair& pair, QueuePair* peer, SendRequest& request);
  Outcome begin(QueuePair& pair, QueuePair& peer, SendRequest& request);
  Outcome move_packets(QueuePair& pair, QueuePair& peer, SendRequest& request);
  Outcome atomic(QueuePair& pair, QueuePair& peer, SendRequest& request);
  // Consumes a receive for a SEND, or for immediate data.
  Outcome deliver(QueuePair& pair, QueuePair& peer, SendRequest& request);

  // Local bytes [offset, offset + bytes) of a request. False: a key does not allow it.
  static bool gather(QueuePair& pair, const SendRequest& request, std::uint64_t offset,
                     std::byte* to, std::uint64_t bytes);
  static bool scatter(QueuePair& pair, const std::vector<ibv_sge>& pieces, std::uint64_t offset,
                      const std::byte* from, std::uint64_t bytes, unsigned access);
  static Outcome failed(ibv_wc_status status) { return {Step::kFailed, {}, status, 0}; }

  Adapter& adapter_;
  fabric::Random random_;          // of the thread
  std::vector<std::byte> packet_;  // of the thread

  std::mutex mutex_;
  std::condition_variable wake_;
  std::map<QueuePair*, Turn> turns_;                                // under mutex_
  std::multimap<Clock::time_point, std::function<void()>> timers_;  // under mutex_
  bool ending_ = false;                                             // under mutex_
  std::thread thread_;
};

}  // namespace farwrite::verbs_double
