// ServedStream: the Enqueue calls of one stream of a peer's, executed one after the other in the
// order in which they were sent, however large they are.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>

#include "absl/status/status.h"
#include "control/served_call.h"

namespace farwrite::plugin {

// Thread-safe.
class ServedStream : public std::enable_shared_from_this<ServedStream> {
 public:
  using CallRef = std::shared_ptr<ServedCall>;
  // Called once for each call, with what came of it.
  using Answer = std::function<void(const CallRef& call, const absl::Status& status)>;
  // Runs its argument on another thread, which it may block.
  using Schedule = std::function<void(std::function<void()>)>;

  ServedStream(Answer answer, Schedule schedule);

  // The next call. False: it is not the one of this position.
  bool add(CallRef call, std::uint64_t position);
  // The call, which was added, may begin when it is its turn; `prepare` is called before, then.
  void ready(const CallRef& call, std::function<absl::Status()> prepare);
  // What has not begun is answered as cancelled.
  void end();
  bool ended();

 private:
  struct Queued {
    CallRef call;
    std::function<absl::Status()> prepare;  // null: not ready
  };
  // Executes what is ready at the head of the queue.
  void run();

  const Answer answer_;
  const Schedule schedule_;
  const std::uint64_t executor_;
  std::mutex mutex_;
  std::deque<Queued> queue_;
  std::uint64_t next_ = 0;
  bool running_ = false;
  bool ended_ = false;
};

}  // namespace farwrite::plugin
