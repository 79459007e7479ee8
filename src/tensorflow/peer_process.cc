#include "peer_process.h"

#include <cstring>
#include <utility>

#include "stats.h"
#include "tensorflow/core/platform/env.h"
#include "tensorflow/core/platform/logging.h"

namespace farwrite::plugin {
namespace {

constexpr std::int64_t kLater = 500'000;                // us
constexpr std::uint64_t kCloseTimeout = 1'000'000'000;  // ns

void give_back(std::unique_ptr<Lent> lent) {
  if (lent->staging != nullptr) fw_device_deallocate(lent->device, lent->staging);
}

// Runs on a thread of the channel, or of the device: it must not block.
void returned(void* context) {
  std::unique_ptr<Lent> lent(static_cast<Lent*>(context));
  count(stats().leases_returned);
  if (lent->variable && lent->tensor.RefCountIsOne()) count(stats().copy_on_write);
  give_back(std::move(lent));
}

std::string endpoint_of(const fw_channel* channel) {
  fw_identity identity{};
  fw_channel_peer(channel, &identity);
  return identity.endpoint;
}

}  // namespace

ProcessId ProcessId::of(const fw_identity& identity) {
  ProcessId id;
  std::memcpy(id.uuid.data(), identity.uuid, id.uuid.size());
  id.epoch = identity.epoch;
  return id;
}

PeerProcess::PeerProcess(ProcessId id, fw_channel* channel)
    : id_(id),
      endpoint_(endpoint_of(channel)),
      fabric_(fw_channel_fabric(channel)),
      fabric_reason_(fw_channel_fabric_reason(channel)),
      lanes_(fw_channel_lanes(channel)),
      max_message_bytes_(fw_channel_max_message_bytes(channel)),
      channel_(channel) {}

void PeerProcess::close() {
  fw_channel* channel = nullptr;
  {
    const std::unique_lock<std::shared_mutex> lock(mutex_);
    std::swap(channel, channel_);
  }
  if (channel == nullptr) return;
  tsl::Env::Default()->SchedClosure([channel] {
    const FwStatus closed(fw_channel_close(channel, kCloseTimeout));
    if (closed != nullptr) VLOG(1) << "Farwrite: " << message_of(closed);
  });
}

absl::Status PeerProcess::check(const std::string& message) const {
  if (channel_ == nullptr) return absl::UnavailableError("Farwrite: the peer has gone");
  if (message.size() <= max_message_bytes_) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "Farwrite: an edge's name is too long to push: " + std::to_string(message.size()) + " of " +
      std::to_string(max_message_bytes_) + " bytes; shorten the names of the graph's nodes");
}

void PeerProcess::send_later(std::string message) {
  {
    const std::lock_guard<std::mutex> lock(waiting_mutex_);
    waiting_.push_back(std::move(message));
    if (waits_.exchange(true)) return;
  }
  tsl::Env::Default()->SchedClosureAfter(kLater, [weak = weak_from_this()] {
    const std::shared_ptr<PeerProcess> self = weak.lock();
    if (self == nullptr) return;
    const std::shared_lock<std::shared_mutex> lock(self->mutex_);
    self->send_what_waits();
  });
}

// Under mutex_. Before a message that the caller is about to send, on the same lane.
void PeerProcess::send_what_waits() {
  if (channel_ == nullptr || !waits_.load(std::memory_order_relaxed)) return;
  std::vector<std::string> messages;
  {
    const std::lock_guard<std::mutex> lock(waiting_mutex_);
    messages.swap(waiting_);
    waits_.store(false);
  }
  for (const std::string& message : messages) {
    const FwStatus status(fw_channel_send(channel_, message.data(), message.size(), 0, 0));
    if (status != nullptr) VLOG(1) << "Farwrite: " << message_of(status);
  }
}

absl::Status PeerProcess::send(const std::string& message) {
  const std::shared_lock<std::shared_mutex> lock(mutex_);
  const absl::Status checked = check(message);
  if (!checked.ok()) return checked;
  send_what_waits();
  const FwStatus status(fw_channel_send(channel_, message.data(), message.size(), 0, 0));
  return status == nullptr ? absl::OkStatus() : absl::UnavailableError(message_of(status));
}

absl::Status PeerProcess::lend(const std::string& message, const void* memory, std::uint64_t bytes,
                               std::unique_ptr<Lent> lent) {
  const std::shared_lock<std::shared_mutex> lock(mutex_);
  const absl::Status checked = check(message);
  if (!checked.ok()) {
    give_back(std::move(lent));
    return checked;
  }
  send_what_waits();
  count(stats().leases_out);
  Lent* const context = lent.release();
  const FwStatus status(fw_channel_lend(channel_, message.data(), message.size(), memory, bytes,
                                        &returned, context, 0, 0));
  if (status == nullptr) return absl::OkStatus();
  returned(context);
  return absl::ResourceExhaustedError(message_of(status));
}

}  // namespace farwrite::plugin
