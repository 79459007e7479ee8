#include "control/served_stream.h"

#include <atomic>
#include <utility>

#include "core/mutex.h"

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

bool ServedStream::add(CallRef call, const CallMessage& message, RemoteBytes lent) {
  QueuedCall queued;
  queued.arrived = std::make_shared<ArrivedCall>(message, std::move(lent));
  queued.call = std::move(call);
  {
    const core::Lock lock(mutex_);
    if (message.position != next_) return false;
    ++next_;
    queue_.push_back(std::move(queued));
    if (std::exchange(running_, true)) return true;
  }
  schedule_([self = shared_from_this()] { self->run(); });
  return true;
}

void ServedStream::run() {
  while (true) {
    QueuedCall next;
    {
      const core::Lock lock(mutex_);
      if (queue_.empty()) {
        running_ = false;
        return;
      }
      next = std::move(queue_.front());
      queue_.pop_front();
    }
    if (!execute(std::move(next))) return;
  }
}

bool ServedStream::execute(QueuedCall next) {
  const bool is_here = !next.arrived->is_lent();
  next.arrived->see(
      schedule_, [call = next.call] { return call->cancelled(); },
      [self = shared_from_this(), next, is_here](const absl::Status& status) {
        self->finish(next.call, next.call->parse(status, *next.arrived));
        if (!is_here) self->run();
      });
  return is_here;
}

void ServedStream::finish(const CallRef& call, absl::Status status) {
  {
    const core::Lock lock(mutex_);
    if (call->cancelled()) ended_ = true;  // its peer has gone
    if (ended_) status = absl::CancelledError("Farwrite: the stream has ended");
  }
  if (status.ok()) status = call->enqueue(executor_);
  if (!status.ok()) end();
  answer_(call, status);
}

void ServedStream::end() {
  const core::Lock lock(mutex_);
  ended_ = true;
}

}  // namespace farwrite::plugin
