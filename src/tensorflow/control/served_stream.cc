#include "control/served_stream.h"

#include <algorithm>
#include <atomic>
#include <utility>

namespace farwrite::plugin {
namespace {

// No number that TensorFlow gives to its own streams, which is the address of an object.
constexpr std::uint64_t kOurs = std::uint64_t{1} << 63;

std::uint64_t next_executor() {
  static std::atomic<std::uint64_t> last{0};
  return kOurs | (last.fetch_add(1) + 1);
}

}  // namespace

ServedStream::ServedStream(Answer answer, Schedule schedule)
    : answer_(std::move(answer)), schedule_(std::move(schedule)), executor_(next_executor()) {}

bool ServedStream::add(CallRef call, std::uint64_t position) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (position != next_) return false;
  ++next_;
  Queued queued;
  queued.call = std::move(call);
  queue_.push_back(std::move(queued));
  return true;
}

void ServedStream::ready(const CallRef& call, std::function<absl::Status()> prepare) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = std::find_if(queue_.begin(), queue_.end(),
                                    [&call](const Queued& queued) { return queued.call == call; });
    found->prepare = std::move(prepare);
    if (running_ || !queue_.front().prepare) return;
    running_ = true;
  }
  schedule_([self = shared_from_this()] { self->run(); });
}

void ServedStream::run() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!queue_.empty() && queue_.front().prepare) {
    const Queued next = std::move(queue_.front());
    queue_.pop_front();
    if (next.call->cancelled()) ended_ = true;  // its peer has gone
    const bool ended = ended_;
    lock.unlock();
    absl::Status status =
        ended ? absl::CancelledError("Farwrite: the stream has ended") : next.prepare();
    if (status.ok()) status = next.call->enqueue(executor_);
    if (!status.ok()) end();
    answer_(next.call, status);
    lock.lock();
  }
  running_ = false;
}

void ServedStream::end() {
  const std::lock_guard<std::mutex> lock(mutex_);
  ended_ = true;
}

bool ServedStream::ended() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return ended_;
}

}  // namespace farwrite::plugin
