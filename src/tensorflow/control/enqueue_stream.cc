#include "control/enqueue_stream.h"

#include <atomic>
#include <chrono>
#include <optional>
#include <utility>

#include "base/remote_error.h"
#include "base/work_queue.h"
#include "core/mutex.h"
#include "memory/room.h"
#include "stats/stats.h"
#include "tensorflow/core/platform/status.h"

namespace farwrite::plugin {

namespace tf = ::tensorflow;

namespace {

constexpr std::chrono::seconds kLongestMeeting(5);

std::uint64_t next_number() {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1) + 1;
}

absl::Status closed() {
  return tsl::StatusGroup::MakeDerived(absl::CancelledError("Farwrite: the context was closed"));
}

}  // namespace

// Nothing is under way, because that holds the stream.
EnqueueStream::~EnqueueStream() {
  if (number_ != 0) cluster_->client().end_stream(callee_.peer, number_);
}

void EnqueueStream::send(const tf::eager::EnqueueRequest& request,
                         tf::eager::EnqueueResponse* response, tf::StatusCallback done) {
  if (!may_be_sent(request)) {
    done(absl::InvalidArgumentError("Farwrite: an Enqueue call has more than 2 GB"));
    return;
  }
  EnqueuedRequest sent;
  sent.response = response;
  sent.done = std::move(done);
  core::Lock lock(mutex_);
  if (closed_) {
    lock.unlock();
    tell(std::move(sent), closed());
    return;
  }
  if (!posting_ && waiting_.empty() && may_post()) {
    posting_ = true;
    const std::uint64_t returns = Room::returns();
    const bool posted = post(request, std::move(sent));
    lock.unlock();
    if (posted) {
      go_on();
    } else {
      go_on_with_room(returns);
    }
    return;
  }
  lock.unlock();
  sent.held = std::make_unique<tf::eager::EnqueueRequest>(request);
  lock.lock();
  if (closed_) {
    lock.unlock();
    tell(std::move(sent), closed());
    return;
  }
  waiting_.push_back(std::move(sent));
  if (std::exchange(posting_, true)) return;
  lock.unlock();
  go_on();
}

bool EnqueueStream::may_post() const {
  return way_ == Carrier::kGrpc || (way_ == Carrier::kFarwrite && under_way_.size() < kWindow);
}

void EnqueueStream::go_on() {
  while (true) {
    core::Lock lock(mutex_);
    if (!ended_.empty()) {
      const auto ended = std::exchange(ended_, {});
      lock.unlock();
      for (const auto& [peer, number] : ended) cluster_->client().end_stream(peer, number);
      continue;
    }
    if (waiting_.empty() || (way_ == Carrier::kFarwrite && !may_post())) {
      posting_ = false;
      return;
    }
    if (way_ == Carrier::kUndecided) {
      lock.unlock();
      const auto decided = std::make_shared<std::atomic<bool>>(false);
      const auto decide = [self = shared_from_this(), decided](const Callee& callee) {
        if (decided->exchange(true)) return;
        self->decide(callee);
        self->go_on();
      };
      // Of a task that cannot be met, gRPC says sooner what is wrong.
      WorkQueue::of_process().submit_later(kLongestMeeting, [decide] { decide(Callee()); });
      cluster_->meet(task_, decide);
      return;
    }
    EnqueuedRequest next = std::move(waiting_.front());
    waiting_.pop_front();
    const tf::eager::EnqueueRequest& request = *next.held;
    const std::uint64_t returns = Room::returns();
    if (!post(request, std::move(next))) {
      lock.unlock();
      go_on_with_room(returns);
      return;
    }
  }
}

void EnqueueStream::go_on_with_room(std::uint64_t returns) {
  Room::of_process().wait(returns, [self = shared_from_this()] { self->go_on(); });
}

void EnqueueStream::decide(const Callee& callee) {
  const core::Lock lock(mutex_);
  way_ = callee.peer != nullptr ? Carrier::kFarwrite : Carrier::kGrpc;
  callee_ = callee;
  if (way_ == Carrier::kGrpc) return;
  number_ = next_number();
  next_ = 0;
}

bool EnqueueStream::post(const tf::eager::EnqueueRequest& request, EnqueuedRequest sent) {
  if (way_ == Carrier::kGrpc) {
    const core::Unlock unlocked(mutex_);
    count(stats().grpc_control_calls);
    stock_->StreamingEnqueueAsync(true, nullptr, &request, sent.response, std::move(sent.done));
    return true;
  }
  const Key key(number_, next_++);
  ControlClient::ControlCall call;
  call.peer = callee_.peer;
  call.task = task_;
  call.server = callee_.server;
  call.method = Method::kEnqueue;
  call.stream = key.first;
  call.position = key.second;
  // Not the caller's, which is gone once an error of an earlier request has ended this one.
  const auto response = std::make_shared<tf::eager::EnqueueResponse>();
  call.response = response.get();
  call.done = [self = shared_from_this(), key, response](const absl::Status& status) {
    self->answered(key, status, *response);
  };
  // Whatever ends a request that is under way may free it, so it is not before it was written.
  std::optional<absl::Status> over;
  bool is_under_way = false;
  const auto written = [&] {
    const core::Lock lock(mutex_);
    if (number_ != key.first) {
      over = ended_with_;
      return false;
    }
    under_way_.emplace(key, std::move(sent));
    is_under_way = true;
    return true;
  };
  {
    const core::Unlock unlocked(mutex_);
    if (cluster_->client().begin(call, request, written)) {
      if (over.has_value()) tell(std::move(sent), *over);
      return true;
    }
  }
  if (is_under_way) {
    const auto found = under_way_.find(key);
    if (found == under_way_.end()) return true;  // it has been ended
    sent = std::move(found->second);
    under_way_.erase(found);
  }
  if (sent.held == nullptr) {
    const core::Unlock unlocked(mutex_);
    sent.held = std::make_unique<tf::eager::EnqueueRequest>(request);
  }
  if (number_ != key.first) {
    const absl::Status why = ended_with_;
    const core::Unlock unlocked(mutex_);
    tell(std::move(sent), why);
    return true;
  }
  waiting_.push_front(std::move(sent));
  --next_;
  if (call.peer->ended()) {
    const absl::Status gone = called_error(task_, call.peer->gone());
    std::vector<EnqueuedRequest> ended = end(key, gone);
    const core::Unlock unlocked(mutex_);
    tell(std::move(ended), gone);
    return true;
  }
  return false;
}

void EnqueueStream::answered(Key key, const absl::Status& status,
                             tf::eager::EnqueueResponse& response) {
  if (!status.ok()) {
    std::vector<EnqueuedRequest> over;
    {
      const core::Lock lock(mutex_);
      over = end(key, status);
    }
    return tell(std::move(over), status);
  }
  EnqueuedRequest sent;
  bool goes_on = false;
  {
    const core::Lock lock(mutex_);
    const auto found = under_way_.find(key);
    if (found == under_way_.end()) return;  // it has been ended
    sent = std::move(found->second);
    under_way_.erase(found);
    goes_on = !waiting_.empty() && !std::exchange(posting_, true);
  }
  sent.response->Swap(&response);
  sent.done(status);
  // Not here: this is the poller.
  if (goes_on) WorkQueue::of_process().submit([self = shared_from_this()] { self->go_on(); });
}

std::vector<EnqueueStream::EnqueuedRequest> EnqueueStream::end(Key from, const absl::Status& why) {
  std::vector<EnqueuedRequest> over;
  const bool current = from.first == number_;
  const auto first = under_way_.lower_bound(from);
  const auto last = under_way_.upper_bound(current ? Key(from.first, UINT64_MAX) : from);
  for (auto at = first; at != last; ++at) over.push_back(std::move(at->second));
  under_way_.erase(first, last);
  if (current) {
    for (EnqueuedRequest& request : waiting_) over.push_back(std::move(request));
    waiting_.clear();
    if (number_ != 0) ended_.emplace_back(std::move(callee_.peer), number_);
    number_ = 0;
    ended_with_ = why;
    callee_ = {};
    way_ = Carrier::kUndecided;
    if (!std::exchange(posting_, true)) {
      WorkQueue::of_process().submit([self = shared_from_this()] { self->go_on(); });
    }
  }
  return over;
}

void EnqueueStream::tell(EnqueuedRequest over, const absl::Status& status) { over.done(status); }

void EnqueueStream::tell(std::vector<EnqueuedRequest> over, const absl::Status& status) {
  for (const EnqueuedRequest& request : over) request.done(status);
}

void EnqueueStream::close() {
  std::vector<EnqueuedRequest> over;
  {
    const core::Lock lock(mutex_);
    closed_ = true;
    if (way_ != Carrier::kGrpc) over = end({number_, 0}, closed());
  }
  tell(std::move(over), closed());
}

bool EnqueueStream::by_grpc() {
  const core::Lock lock(mutex_);
  return way_ == Carrier::kGrpc;
}

}  // namespace farwrite::plugin
