// PeerProcess: another process with the plug-in, and the one channel to it.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/backlog.h"
#include "base/status_bridge.h"
#include "core/mutex.h"
#include "farwrite/c_api.h"
#include "memory/staging.h"
#include "tensorflow/core/framework/tensor.h"

namespace farwrite::plugin {

// Names one start of a process' device.
struct ProcessId {
  std::array<std::uint8_t, 16> uuid{};
  std::uint64_t epoch = 0;
  bool operator==(const ProcessId& other) const {
    return uuid == other.uuid && epoch == other.epoch;
  }
  bool operator<(const ProcessId& other) const {
    return uuid != other.uuid ? uuid < other.uuid : epoch < other.epoch;
  }
  static ProcessId of(const fw_identity& identity);
};

// A sent tensor, held while a peer looks at its bytes.
struct LentTensor {
  tensorflow::Tensor tensor;  // empty if a copy is lent
  Staged copy;
  bool variable = false;  // the producer reads a variable
  // Called once the bytes are the sender's again, never if lend() failed. It must not block.
  std::function<void()> on_return;
};

// Closes the channel on another thread, since its last user may be one of its callbacks, and frees
// the handle once no callback uses it.
void close_soon(fw_channel* channel);

// What is known of the peer. The texts are valid as long as the handle.
fw_peer_info peer_of(const fw_channel* channel);

// Thread-safe. Routes and steps hold it longer than the peer lives, so the channel goes when the
// peer does, not with the last reference.
class PeerProcess : public std::enable_shared_from_this<PeerProcess> {
 public:
  PeerProcess(const fw_peer_info& peer, fw_channel* channel);
  ~PeerProcess() { close(); }
  PeerProcess(const PeerProcess&) = delete;
  PeerProcess& operator=(const PeerProcess&) = delete;

  const ProcessId& id() const { return id_; }
  const std::string& endpoint() const { return endpoint_; }
  // "/job:ps/replica:0/task:1 (127.0.0.1:7777)", for messages.
  const std::string& name() const { return name_; }
  const std::string& fabric() const { return fabric_; }
  const std::string& fabric_reason() const { return fabric_reason_; }
  // Whether what this process lends is looked at without a copy. If not, tensors land in slots.
  bool maps() const { return maps_; }
  // The lane for the bytes of a tensor, by their number. Messages go on the first lane. A lane
  // keeps its order, and lanes share the network, so that no tensor waits for one of many times its
  // size.
  std::uint32_t lane_of(std::uint64_t bytes) const;
  bool ended() const { return ended_.load(); }
  // The error of the thread that waits for it once it has ended.
  absl::Status gone() const;

  // Whether a message of so many bytes is short enough to be sent.
  bool takes(std::size_t bytes) const { return bytes <= max_message_bytes_; }
  // Both fail without harm once the peer has ended; see ended(). `tag`: whose message it is.
  absl::Status send(const std::string& message, std::uint32_t tag = 0);
  // Holds `lent` until the peer has given the bytes back; deletes it on failure, too.
  absl::Status lend(const std::string& message, const void* memory, std::uint64_t bytes,
                    std::unique_ptr<LentTensor> lent, std::uint32_t tag = 0);
  // The same for what nothing waits for: it goes before the next message, or in half a second, so
  // that it wakes the peer for nothing of its own.
  void send_later(std::string message);
  // What this peer pushed and nothing has asked for; see backlog.h.
  const std::shared_ptr<Backlog>& backlog() const { return backlog_; }
  // The peer says whether to keep what is for it.
  void set_held(bool held) { held_.store(held); }
  bool held() const { return held_.load(std::memory_order_relaxed); }
  // Runs `work` soon, one after the other, on a thread for this peer alone: it may wait for it.
  void schedule(std::function<void()> work);
  // Closes the channel, soon and on another thread: callbacks of the channel may call this.
  void close();
  // The same for a peer that has gone, or has to.
  void end();

  // Lets the tensor land in a slot of the peer's: writes its bytes, `data`, behind the description,
  // and tells the peer. Holds `tensor` until the last byte has left. False: no slot is free. On an
  // error nothing was written.
  absl::Status land(std::string_view edge, const std::string& description, const void* data,
                    std::uint64_t bytes, const tensorflow::Tensor& tensor, bool* landed);
  // Whether a slot for so many bytes of the edge is free now.
  bool has_slot(std::string_view edge, std::uint64_t bytes) const;
  // A tensor of so many bytes was offered on this edge for want of a slot, and more will come.
  void want_slots(std::string_view edge, std::uint64_t bytes);

 private:
  using Channel = std::shared_ptr<fw_channel>;

  // Null once the peer has ended. The channel closes when the last user of it is done.
  Channel channel() const;
  absl::Status check(const std::string& message) const;
  void send_what_waits(fw_channel* channel);
  void send_later_soon();

  const ProcessId id_;
  const std::string endpoint_;
  const std::string name_;
  const std::string fabric_;
  const std::string fabric_reason_;
  const std::uint32_t lanes_;
  const bool maps_;
  const std::uint64_t max_message_bytes_;
  std::atomic<bool> ended_{false};
  mutable core::Mutex mutex_{core::LockRank::kProgram};
  Channel channel_ FW_GUARDED_BY(mutex_);
  const std::shared_ptr<Backlog> backlog_ = std::make_shared<Backlog>();
  std::atomic<bool> held_{false};  // the peer holds this process
  std::atomic<bool> waits_{false};
  core::Mutex waiting_mutex_{core::LockRank::kProgram};
  std::vector<std::string> waiting_ FW_GUARDED_BY(waiting_mutex_);
  core::Mutex work_mutex_{core::LockRank::kProgram};
  std::deque<std::function<void()>> work_ FW_GUARDED_BY(work_mutex_);
  bool works_ FW_GUARDED_BY(work_mutex_) = false;
};

}  // namespace farwrite::plugin
