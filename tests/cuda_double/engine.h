// Engine: the thread that executes all streams, piece by piece.
//
// It prefers the newest work, and every fourth time the oldest, so that streams overtake each other
// while none starves. Every other work moves from its end to its beginning. Both depend on the
// order of the calls alone.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "driver_api.h"
#include "stream.h"

namespace farwrite::cuda_double {

// The caller of every function holds the lock.
class Engine {
 public:
  using Clock = std::chrono::steady_clock;
  using Lock = std::unique_lock<std::mutex>;

  explicit Engine(std::mutex& lock) : lock_(lock) {}

  // Each work waits until a multiple of `delay` that is at least `delay` away. So works of about
  // the same time become ready together, and the last is taken first.
  void set_delay(std::chrono::microseconds delay) { delay_ = delay; }
  // The stream has this new work.
  void ring(const std::shared_ptr<Stream>& stream, Work& work);

  void wait_for(Lock& lock, const std::vector<std::shared_ptr<Work>>& works);
  void wait_for(Lock& lock, const Context& context);  // all its streams

  // cuda_double.h describes these three.
  void pause(Lock& lock);
  void resume();
  unsigned step(Lock& lock, unsigned pieces);
  // Returns when no bytes are moving, which is between two pieces.
  void wait_for_piece(Lock& lock);

 private:
  void run();
  // The stream whose first work goes on now. Null: none, and `again` is when to look.
  std::shared_ptr<Stream> choose(Clock::time_point* again);
  bool ready(Work& work, Clock::time_point now, Clock::time_point* again);
  // Whether the context may reach all of it still.
  static bool allowed(const Work& work);
  void advance(Lock& lock, const std::shared_ptr<Stream>& stream);
  void finish(const std::shared_ptr<Stream>& stream);

  std::mutex& lock_;
  std::condition_variable wake_;
  std::condition_variable changed_;  // something finished or stopped moving
  std::chrono::microseconds delay_{0};
  std::vector<std::shared_ptr<Stream>> busy_;  // those with work, each once
  unsigned long long next_number_ = 1;
  unsigned long long turns_ = 0;
  unsigned steps_ = 0;  // pieces that may move although it is paused
  bool paused_ = false;
  bool moving_ = false;
  bool started_ = false;
};

}  // namespace farwrite::cuda_double
