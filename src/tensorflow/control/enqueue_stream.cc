#include "control/enqueue_stream.h"

#include <atomic>
#include <utility>
#include <vector>

#include "stats/stats.h"
#include "tensorflow/core/platform/status.h"

namespace farwrite::plugin {

namespace tf = ::tensorflow;

namespace {

std::uint64_t next_number() {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1) + 1;
}

}  // namespace

void EnqueueStream::send(const tf::eager::EnqueueRequest& request,
                         tf::eager::EnqueueResponse* response, tf::StatusCallback done) {
  Request sent;
  sent.response = response;
  sent.done = std::move(done);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const bool waits = !held_.empty() || sending_held_;
    if (!waits && by_grpc_ == 0 && begin(request, sent)) return;
    if (waits || !under_way_.empty()) {
      sent.held = request;
      held_.push_back(std::move(sent));
      return;
    }
    ++by_grpc_;
    used_grpc_ = true;
  }
  send_by_grpc(request, std::move(sent));
}

bool EnqueueStream::begin(const tf::eager::EnqueueRequest& request, Request& sent) {
  ControlClient::Call call;
  if (!cluster_->find(task_, &call)) return false;
  const bool same = number_ != 0 && call.peer == peer_ && call.server == server_;
  if (!same) {
    if (!under_way_.empty()) return false;  // the peer has gone, and they end soon
    number_ = next_number();
    next_ = 0;
    peer_ = call.peer;
    server_ = call.server;
  }
  call.method = ControlMethod::kEnqueue;
  call.stream = number_;
  call.position = next_;
  // Not the caller's, which is gone once an error of an earlier request has ended this one.
  const auto response = std::make_shared<tf::eager::EnqueueResponse>();
  call.response = response.get();
  call.done = [self = shared_from_this(), number = number_, position = next_,
               response](const absl::Status& status) {
    self->answered(number, position, status, *response);
  };
  if (!cluster_->client().begin(call, request)) return false;
  under_way_.emplace(next_++, std::move(sent));
  return true;
}

void EnqueueStream::answered(std::uint64_t number, Position position, const absl::Status& status,
                             tf::eager::EnqueueResponse& response) {
  if (!status.ok()) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (number != number_ || under_way_.count(position) == 0) return;  // ended meanwhile
    }
    end(status);
    return;
  }
  Request sent;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = number == number_ ? under_way_.find(position) : under_way_.end();
    if (found == under_way_.end()) return;
    sent = std::move(found->second);
    under_way_.erase(found);
  }
  sent.response->Swap(&response);
  sent.done(status);
  send_held();
}

void EnqueueStream::end(const absl::Status& status) {
  std::vector<Request> ended;
  std::shared_ptr<PeerProcess> peer;
  std::uint64_t number = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    number = std::exchange(number_, 0);
    peer.swap(peer_);
    for (auto& [position, request] : under_way_) ended.push_back(std::move(request));
    under_way_.clear();
    for (Request& request : held_) ended.push_back(std::move(request));
    held_.clear();
  }
  if (peer != nullptr) cluster_->client().end_stream(std::move(peer), number);
  for (const Request& request : ended) request.done(status);
}

void EnqueueStream::send_held() {
  std::unique_lock<std::mutex> lock(mutex_);
  if (sending_held_ || !under_way_.empty()) return;
  sending_held_ = true;
  while (!held_.empty()) {
    Request next = std::move(held_.front());
    held_.pop_front();
    ++by_grpc_;
    used_grpc_ = true;
    lock.unlock();
    const tf::eager::EnqueueRequest request = std::move(next.held);
    send_by_grpc(request, std::move(next));
    lock.lock();
  }
  sending_held_ = false;
}

void EnqueueStream::send_by_grpc(const tf::eager::EnqueueRequest& request, Request sent) {
  count(stats().grpc_control_calls);
  stock_->StreamingEnqueueAsync(
      true, nullptr, &request, sent.response,
      [self = shared_from_this(), done = std::move(sent.done)](const absl::Status& status) {
        {
          const std::lock_guard<std::mutex> lock(self->mutex_);
          --self->by_grpc_;
        }
        done(status);
      });
}

void EnqueueStream::close() {
  end(tsl::StatusGroup::MakeDerived(absl::CancelledError("Farwrite: the context was closed")));
}

bool EnqueueStream::used_grpc() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return used_grpc_;
}

}  // namespace farwrite::plugin
