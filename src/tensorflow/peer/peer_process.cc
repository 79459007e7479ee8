#include "peer/peer_process.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/work_queue.h"
#include "core/mutex.h"
#include "memory/room.h"
#include "stats/stats.h"
#include "tensorflow/core/platform/env.h"
#include "tensorflow/core/platform/logging.h"

namespace farwrite::plugin {
namespace {

constexpr std::chrono::milliseconds kLater(500);
constexpr std::uint64_t kCloseTimeout = 1'000'000'000;  // ns
// From these sizes on, tensors have lanes of their own.
constexpr std::uint64_t kMediumBytes = std::uint64_t{1} << 20;
constexpr std::uint64_t kLargeBytes = std::uint64_t{16} << 20;

// Owns what is written into a slot until the last byte has left.
void landed(void* context, const fw_status* status) {
  const std::unique_ptr<tensorflow::Tensor> tensor(static_cast<tensorflow::Tensor*>(context));
  // The channel's end, which ends the receiver's wait as well.
  if (status != nullptr)
    VLOG(1) << "Farwrite: a tensor did not land: " << fw_status_message(status);
}

void take_back(std::unique_ptr<LentTensor> lent) {
  count(stats().leases_returned);
  if (lent->variable && lent->tensor.RefCountIsOne()) count(stats().copy_on_write);
  const std::function<void()> on_return = std::move(lent->on_return);
  lent.reset();
  if (on_return) on_return();
}

// Runs on a thread of the channel, or of the device: it must not block.
void returned(void* context) {
  take_back(std::unique_ptr<LentTensor>(static_cast<LentTensor*>(context)));
  Room::came_back();
}

// What waits in a queue makes room there when it leaves.
void tell_when_sent(fw_completion* queued) {
  if (queued == nullptr) return;
  const FwStatus told(
      fw_completion_on_done(queued, [](void*, const fw_status*) { Room::came_back(); }, nullptr));
  fw_completion_free(queued);
}

}  // namespace

void close_soon(fw_channel* channel) {
  tsl::Env::Default()->SchedClosure([channel] {
    const FwStatus closed(fw_channel_close(channel, kCloseTimeout));
    if (closed != nullptr) VLOG(1) << "Farwrite: " << message_of(closed);
    if (fw_status_code(closed.get()) == FW_ERROR_DEADLINE_EXCEEDED) {
      close_soon(channel);  // a callback has not returned yet
    } else {
      fw_channel_release(channel);
    }
  });
}

ProcessId ProcessId::of(const fw_identity& identity) {
  ProcessId id;
  std::memcpy(id.uuid.data(), identity.uuid, id.uuid.size());
  id.epoch = identity.epoch;
  return id;
}

fw_peer_info peer_of(const fw_channel* channel) {
  fw_peer_info info{};
  info.struct_size = sizeof(info);
  fw_channel_peer_info(channel, &info);
  return info;
}

PeerProcess::PeerProcess(const fw_peer_info& peer, fw_channel* channel)
    : id_(ProcessId::of(peer.identity)),
      endpoint_(peer.identity.endpoint),
      name_(fw_channel_peer_name(channel)),
      fabric_(peer.fabric),
      fabric_reason_(peer.fabric_reason),
      lanes_(peer.lanes),
      maps_(fw_channel_maps(channel) != 0),
      max_message_bytes_(fw_channel_max_message_bytes(channel)),
      channel_(channel, &close_soon) {}

absl::Status PeerProcess::gone() const {
  return absl::UnavailableError("Farwrite: the peer " + name_ + " is gone");
}

void PeerProcess::close() {
  Channel channel;
  {
    const core::Lock lock(mutex_);
    channel.swap(channel_);
  }
}

void PeerProcess::end() {
  ended_.store(true);
  close();
  Room::came_back();
}

PeerProcess::Channel PeerProcess::channel() const {
  const core::Lock lock(mutex_);
  return channel_;
}

absl::Status PeerProcess::check(const std::string& message) const {
  if (takes(message.size())) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "Farwrite: an edge's name is too long to push: " + std::to_string(message.size()) + " of " +
      std::to_string(max_message_bytes_) + " bytes; shorten the names of the graph's nodes");
}

void PeerProcess::send_later(std::string message) {
  {
    const core::Lock lock(waiting_mutex_);
    waiting_.push_back(std::move(message));
    waits_.store(true);
    if (waiting_.size() > 1) return;
  }
  send_later_soon();
}

void PeerProcess::send_later_soon() {
  WorkQueue::of_process().submit_after(kLater, [weak = weak_from_this()] {
    const std::shared_ptr<PeerProcess> self = weak.lock();
    const Channel channel = self == nullptr ? nullptr : self->channel();
    if (channel != nullptr) self->send_what_waits(channel.get());
  });
}

// Before a message that the caller is about to send, on the same lane.
void PeerProcess::send_what_waits(fw_channel* channel) {
  if (!waits_.load(std::memory_order_relaxed)) return;
  std::vector<std::string> messages;
  {
    const core::Lock lock(waiting_mutex_);
    messages.swap(waiting_);
    waits_.store(false);
  }
  for (auto message = messages.begin(); message != messages.end(); ++message) {
    const FwStatus status(
        fw_channel_send(channel, message->data(), message->size(), 0, 0, nullptr));
    if (status == nullptr) continue;
    VLOG(1) << "Farwrite: later: " << message_of(status);
    // A silent peer, whose queue is full. One that has gone needs none of this.
    {
      const core::Lock lock(waiting_mutex_);
      waiting_.insert(waiting_.begin(), std::make_move_iterator(message),
                      std::make_move_iterator(messages.end()));
      waits_.store(true);
    }
    if (!ended()) send_later_soon();
    return;
  }
}

void PeerProcess::schedule(std::function<void()> work) {
  {
    const core::Lock lock(work_mutex_);
    work_.push_back(std::move(work));
    if (works_) return;
    works_ = true;
  }
  tsl::Env::Default()->SchedClosure([self = shared_from_this()] {
    while (true) {
      std::function<void()> next;
      {
        const core::Lock lock(self->work_mutex_);
        if (self->work_.empty()) {
          self->works_ = false;
          return;
        }
        next = std::move(self->work_.front());
        self->work_.pop_front();
      }
      next();
    }
  });
}

absl::Status PeerProcess::send(const std::string& message, std::uint32_t tag) {
  const Channel channel = this->channel();
  if (channel == nullptr) return gone();
  const absl::Status checked = check(message);
  if (!checked.ok()) return checked;
  send_what_waits(channel.get());
  fw_completion* queued = nullptr;
  const FwStatus status(
      fw_channel_send(channel.get(), message.data(), message.size(), tag, 0, &queued));
  tell_when_sent(queued);
  return status == nullptr ? absl::OkStatus() : absl::UnavailableError(message_of(status));
}

absl::Status PeerProcess::lend(const std::string& message, const void* memory, std::uint64_t bytes,
                               std::unique_ptr<LentTensor> lent, std::uint32_t tag) {
  const Channel channel = this->channel();
  const absl::Status checked = channel == nullptr ? gone() : check(message);
  if (!checked.ok()) return checked;
  send_what_waits(channel.get());
  count(stats().leases_out);
  LentTensor* const context = lent.release();
  fw_completion* queued = nullptr;
  const FwStatus status(fw_channel_lend(channel.get(), message.data(), message.size(), memory,
                                        bytes, &returned, context, tag, 0, &queued));
  tell_when_sent(queued);
  if (status == nullptr) return absl::OkStatus();
  context->on_return = nullptr;
  take_back(std::unique_ptr<LentTensor>(context));
  return absl::ResourceExhaustedError(message_of(status));
}

absl::Status PeerProcess::land(std::string_view edge, const std::string& description,
                               const void* data, std::uint64_t bytes,
                               const tensorflow::Tensor& tensor, bool* pushed) {
  *pushed = false;
  const Channel channel = this->channel();
  if (channel == nullptr) return gone();
  send_what_waits(channel.get());
  auto held = std::make_unique<tensorflow::Tensor>(tensor);
  int written = 0;
  const FwStatus status(fw_channel_push(channel.get(), edge.data(), edge.size(), description.data(),
                                        description.size(), data, bytes, lane_of(bytes), &landed,
                                        held.get(), &written));
  if (status != nullptr) return absl::UnavailableError(message_of(status));
  *pushed = written != 0;
  if (*pushed) (void)held.release();  // landed() has it
  return absl::OkStatus();
}

std::uint32_t PeerProcess::lane_of(std::uint64_t bytes) const {
  const std::uint32_t wanted = bytes < kMediumBytes ? 1 : bytes < kLargeBytes ? 2 : 3;
  return std::min(wanted, lanes_ - 1);
}

bool PeerProcess::has_slot(std::string_view edge, std::uint64_t bytes) const {
  const Channel channel = this->channel();
  return channel != nullptr &&
         fw_channel_has_slot(channel.get(), edge.data(), edge.size(), bytes) != 0;
}

void PeerProcess::want_slots(std::string_view edge, std::uint64_t bytes) {
  const Channel channel = this->channel();
  if (channel != nullptr) fw_channel_want_slots(channel.get(), edge.data(), edge.size(), bytes);
}

}  // namespace farwrite::plugin
