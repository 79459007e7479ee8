#include "session/step_transport.h"

#include <condition_variable>
#include <mutex>
#include <utility>

#include "base/work_queue.h"
#include "control/control_message.h"
#include "control/control_transport.h"
#include "memory/staging.h"
#include "tensor/arrival_table.h"
#include "tensor/fetch.h"
#include "tensor/receive.h"
#include "tensorflow/core/framework/allocator.h"
#include "tensorflow/core/framework/tensor_shape.h"

namespace farwrite::plugin {
namespace {

namespace tf = ::tensorflow;

// Reads what another host lent; the reader may give up earlier.
class Reading {
 public:
  static absl::Status read(Arrival arrival, Deadline deadline, tf::Tensor* tensor) {
    const auto reading = std::make_shared<Reading>();
    fetch(std::move(arrival), tf::cpu_allocator(), [reading](absl::Status status, Arrival fetched) {
      reading->end(std::move(status), std::move(fetched.tensor));
    });
    return reading->wait(deadline, tensor);
  }

 private:
  void end(absl::Status status, tf::Tensor tensor) {
    const std::lock_guard<std::mutex> lock(mutex_);
    status_ = std::move(status);
    tensor_ = std::move(tensor);
    over_ = true;
    ended_.notify_one();
  }
  absl::Status wait(Deadline deadline, tf::Tensor* tensor) {
    std::unique_lock<std::mutex> lock(mutex_);
    const auto over = [this] { return over_; };
    if (deadline == kNever) {
      ended_.wait(lock, over);
    } else if (!ended_.wait_until(lock, deadline, over)) {
      return absl::DeadlineExceededError("Deadline Exceeded");
    }
    *tensor = std::move(tensor_);
    return status_;
  }

  std::mutex mutex_;
  std::condition_variable ended_;
  bool over_ = false;
  absl::Status status_;
  tf::Tensor tensor_;
};

}  // namespace

absl::Status send_step(PeerProcess& peer, fw_device* device, StepMessage message,
                       const PackedStep& body) {
  message.table_bytes = body.table().size();
  message.tensor_bytes = body.tensor_bytes();
  std::string inside = body.table();
  message.inside = inside;
  const std::string with_table = encode(message);
  if (peer.takes(with_table.size() + message.tensor_bytes)) {
    inside.resize(inside.size() + message.tensor_bytes);
    body.write_tensors(inside.data() + message.table_bytes);
    message.inside = inside;
    return peer.send(encode(message), kStepTag);
  }
  if (!peer.takes(with_table.size()) || message.tensor_bytes == 0) message.inside = {};
  void* memory = nullptr;
  auto lent = std::make_unique<Lent>();
  lent->copy = stage_room(device, message.lent_bytes(), &memory);
  if (lent->copy == nullptr) {
    return absl::ResourceExhaustedError("Farwrite: no registered memory for the " +
                                        std::to_string(message.lent_bytes()) +
                                        " bytes of a step; raise FARWRITE_SEND_LIMIT");
  }
  char* const bytes = static_cast<char*>(memory);
  if (!message.table_inside()) {
    inside.resize(message.tensors_at());  // with the gap
    fw_copy(bytes, inside.data(), inside.size());
  }
  body.write_tensors(bytes + message.tensors_at());
  const absl::Status sent =
      peer.lend(encode(message), memory, message.lent_bytes(), std::move(lent), kStepTag);
  return sent.ok() ? sent : absl::UnavailableError(sent.message());
}

void send_step_surely(std::shared_ptr<PeerProcess> peer, fw_device* device,
                      const StepMessage& message, std::shared_ptr<const PackedStep> body) {
  const absl::Status sent = send_step(*peer, device, message, *body);
  if (sent.ok() || peer->ended()) return;
  StepMessage next = message;
  if (absl::IsResourceExhausted(sent) && message.ok) {
    next.ok = false;
    body = std::make_shared<const PackedStep>(encode_status(sent));
  }
  WorkQueue::of_process().submit_later(
      kTryAgain, [peer = std::move(peer), device, next, body = std::move(body)] {
        send_step_surely(peer, device, next, body);
      });
}

StepMessage ArrivedStep::message() const {
  StepMessage message = message_;
  message.inside = inside_;
  return message;
}

ArrivedStep::ArrivedStep(const StepMessage& message, View lent, PeerProcess& peer)
    : message_(message),
      inside_(message.inside),
      lent_(std::move(lent)),
      read_lane_(peer.lane_of(message.lent_bytes())) {}

absl::Status ArrivedStep::see(Deadline deadline) {
  const std::uint64_t bytes = message().lent_bytes();
  if ((lent_ != nullptr) != (bytes > 0)) {
    return absl::InternalError("Farwrite: a step came without the bytes of its tensors");
  }
  if (lent_ == nullptr) return absl::OkStatus();
  Arrival arrival;
  arrival.kind = PushKind::kAlias;
  arrival.dtype = tf::DT_UINT8;
  arrival.shape = tf::TensorShape({static_cast<std::int64_t>(bytes)});
  arrival.tensor_bytes = bytes;
  arrival.lent = std::move(lent_);
  arrival.read_lane = read_lane_;
  is_own_ = must_fetch(arrival);
  if (is_own_) return Reading::read(std::move(arrival), deadline, &seen_);
  const absl::Status ready = wait_until_ready(arrival, [deadline] {
    return deadline != kNever && std::chrono::steady_clock::now() >= deadline;
  });
  if (absl::IsCancelled(ready)) return absl::DeadlineExceededError("Deadline Exceeded");
  if (!ready.ok()) return ready;
  return materialize(std::move(arrival), &seen_);
}

std::string_view ArrivedStep::table() const {
  if (message().table_inside()) return std::string_view(inside_).substr(0, message_.table_bytes);
  return {static_cast<const char*>(seen_.data()), message_.table_bytes};
}

absl::Status ArrivedStep::own_tensors(const StepTable& table,
                                      std::vector<NamedTensor>* tensors) const {
  const StepMessage sizes = message();
  if (sizes.all_inside()) {
    return copied_tensors(table, inside_.data() + message_.table_bytes, tensors);
  }
  // What was read is this process' already. But several tensors would hold each other's memory.
  if (is_own_ && table.rows.size() == 1) return viewed_tensors(table, tensors);
  return copied_tensors(table, static_cast<const char*>(seen_.data()) + sizes.tensors_at(),
                        tensors);
}

absl::Status ArrivedStep::viewed_tensors(const StepTable& table,
                                         std::vector<NamedTensor>* tensors) const {
  const StepMessage sizes = message();
  if (sizes.all_inside()) return own_tensors(table, tensors);
  return shared_tensors(table, seen_, sizes.tensors_at(), tensors);
}

}  // namespace farwrite::plugin
