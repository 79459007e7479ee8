#include "collective/collective_post.h"

#include <utility>

#include "base/work_queue.h"
#include "collective/collective_access.h"
#include "core/mutex.h"
#include "edges/edges.h"
#include "farwrite/c_api.h"
#include "memory/arena_allocator.h"
#include "memory/received_buffer.h"
#include "stats/stats.h"
#include "stats/transfer_log.h"
#include "step/collective_peers.h"

namespace farwrite::plugin {

namespace tf = ::tensorflow;

namespace {

std::string withdrawal(const PushMessage& pushed) {
  PushMessage message;
  message.kind = PushKind::kWithdrawn;
  message.receiver = pushed.receiver;
  message.sender = pushed.sender;
  message.step = pushed.step;
  message.key = pushed.key;
  return encode(message);
}

}  // namespace

CollectivePost::CollectivePost(tf::CancellationManager* abortion,
                               tf::CancellationManager* cancellation, tf::StatusCallback done,
                               PostedTensor outgoing)
    : CollectiveCall(abortion, cancellation, std::move(done)),
      peers_(*outgoing.peers),
      key_(std::move(outgoing.key)),
      by_stock_(std::move(outgoing.by_stock)),
      tensor_(std::move(outgoing.tensor)) {
  message_.sender = outgoing.sender;
  message_.step = outgoing.step;
  message_.key = key_;
  message_.dtype = tensor_.dtype();
  message_.shape = tensor_.shape();
  message_.tensor_bytes = tensor_.TotalBytes();
}

void CollectivePost::route_resolved(const Route& route, std::uint64_t expected) {
  if (route.outcome() == Route::State::kFailed) {
    settle(route.failure());
    return;
  }
  if (route.outcome() == Route::State::kStock || route.reach().loopback) {
    if (const tf::StatusCallback done = take_over()) by_stock_(done);
    return;
  }
  if (expected != 0 && expected != route.server()) {
    settle(another_start(route));
    return;
  }
  message_.receiver = collective_space(route.server());
  const absl::Status pushed = push(route);
  if (pushed.ok()) return;
  const PeerProcess& process = *route.reach().process;
  if (absl::IsResourceExhausted(pushed) && !process.ended()) {
    pull(route);
  } else {
    settle(pushed);
  }
}

absl::Status CollectivePost::push(const Route& route) {
  const core::Lock lock(mutex_);
  if (settled()) return absl::OkStatus();
  process_ = route.reach().process;
  const auto* const data = static_cast<const char*>(tensor_.data());
  const std::uint64_t bytes = message_.tensor_bytes;
  absl::Status status;
  bool staged = false;
  message_.sent = TransferLog::of_process().start();
  Transfer transfer(Transfer::Kind::kSendBuf, message_.step, key_, message_.sent);
  if (bytes <= ArenaAllocator::kThreshold) {
    // Its bytes are in the message; what is lent says when the receiver has taken them.
    message_.payload = {data, bytes};
    const void* const receipt = peers_.receipt();
    if (receipt == nullptr) return absl::ResourceExhaustedError("Farwrite: no registered memory");
    status = lend(receipt, Peers::kReceiptBytes, std::make_unique<LentTensor>());
  } else {
    message_.lent = true;
    auto lent = std::make_unique<LentTensor>();
    const void* memory = data;
    if (fw_device_contains(peers_.device(), data) != 0) {
      lent->tensor = tensor_;
    } else {
      // What the algorithm itself writes into is no tensor that was received to be read.
      ReceivedBuffer* const received = ReceivedBuffer::read_only(tensor_);
      staged = received == nullptr;
      lent->copy = staged ? stage(peers_.device(), data, bytes)
                          : received->copy(peers_.device(), data, bytes, false, &staged);
      if (lent->copy == nullptr) {
        return absl::ResourceExhaustedError("Farwrite: no registered memory");
      }
      memory = lent->copy.get();
    }
    status = lend(memory, bytes, std::move(lent));
  }
  if (!status.ok()) {
    process_ = nullptr;
    return status;
  }
  count(stats().collective_pushes);
  count(stats().collective_bytes, bytes);
  if (staged) count(stats().collective_staged);
  const Way way = !message_.lent ? Way::kInline : staged ? Way::kStagedForeign : Way::kZeroCopy;
  transfer.went(name_of(way), process_->fabric(), bytes);
  return status;
}

absl::Status CollectivePost::lend(const void* data, std::uint64_t bytes,
                                  std::unique_ptr<LentTensor> lent) {
  auto self = std::static_pointer_cast<CollectivePost>(shared_from_this());
  lent->on_return = [self = std::move(self), process = process_] {
    // A lease ends by its receiver's death, too.
    self->settle(process->ended() ? process->gone() : absl::OkStatus());
  };
  return process_->lend(encode(message_), data, bytes, std::move(lent));
}

// The receiver is told to ask, and asks where stock leaves the tensor.
void CollectivePost::pull(const Route& route) {
  const tf::StatusCallback done = take_over();
  if (done == nullptr) return;
  message_.kind = PushKind::kPull;
  message_.lent = false;
  message_.payload = {};
  message_.tensor_bytes = 0;
  message_.shape = tf::TensorShape();
  const std::shared_ptr<PeerProcess> process = route.reach().process;
  const absl::Status told = process->send(encode(message_));
  if (!told.ok()) {
    WorkQueue::of_process().submit([done, told] { done(told); });
    return;
  }
  count(stats().pulls_no_memory);
  by_stock_([process, done, taken_back = withdrawal(message_)](const absl::Status& status) {
    if (!status.ok()) (void)process->send(taken_back);  // it has gone if this fails
    done(status);
  });
}

void CollectivePost::ended(const absl::Status& status) {
  const core::Lock lock(mutex_);
  tensor_ = tf::Tensor();
  if (status.ok() || process_ == nullptr) return;
  count(stats().collective_withdrawals);
  (void)process_->send(withdrawal(message_));  // it has gone if this fails
}

}  // namespace farwrite::plugin
