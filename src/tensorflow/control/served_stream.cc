#include "control/served_stream.h"

#include <atomic>
#include <string_view>
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

bool ServedStream::add(CallRef call, const ControlMessage& message, View lent) {
  Queued queued;
  queued.call = std::move(call);
  queued.message = message;
  queued.message.body = {};
  queued.body = message.body;
  queued.lent = std::move(lent);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
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
    Queued next;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
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

bool ServedStream::execute(Queued next) {
  const CallRef call = next.call;
  if (next.lent == nullptr) {
    finish(call, call->parse(absl::OkStatus(), next.body));
    return true;
  }
  see_body(
      next.message, std::move(next.lent), *call->peer(), schedule_,
      [call] { return call->cancelled(); },
      [self = shared_from_this(), call](const absl::Status& status, std::string_view body) {
        self->finish(call, call->parse(status, body));
        self->run();
      });
  return false;
}

void ServedStream::finish(const CallRef& call, absl::Status status) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (call->cancelled()) ended_ = true;  // its peer has gone
    if (ended_) status = absl::CancelledError("Farwrite: the stream has ended");
  }
  if (status.ok()) status = call->enqueue(executor_);
  if (!status.ok()) end();
  answer_(call, status);
}

void ServedStream::end() {
  const std::lock_guard<std::mutex> lock(mutex_);
  ended_ = true;
}

}  // namespace farwrite::plugin
