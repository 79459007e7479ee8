// PeerProcess: another process with the plug-in, and the one channel to it. Peers: all of them.
//
// Who connects: of two processes the one with the lower device uuid, so that both end up with one
// channel between them. Both need it for both directions.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "farwrite/c_api.h"
#include "mailbox.h"
#include "status_bridge.h"
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
struct Lent {
  tensorflow::Tensor tensor;    // empty if the bytes were staged
  void* staging = nullptr;      // our copy in registered memory, or null
  fw_device* device = nullptr;  // where `staging` is from
  bool variable = false;        // the producer reads a variable
};

class PeerProcess {
 public:
  PeerProcess(ProcessId id, fw_channel* channel) : id_(id), channel_(channel) {}
  // Closes the channel; not on a thread of the channel.
  ~PeerProcess();
  PeerProcess(const PeerProcess&) = delete;
  PeerProcess& operator=(const PeerProcess&) = delete;

  const ProcessId& id() const { return id_; }
  std::string endpoint() const;
  std::string fabric() const { return fw_channel_fabric(channel_); }
  bool ended() const { return ended_.load(); }
  std::uint64_t max_message_bytes() const { return fw_channel_max_message_bytes(channel_); }

  FwStatus send(const std::string& message);
  // Holds `lent` until the peer has given the bytes back; deletes it on failure, too.
  FwStatus lend(const std::string& message, const void* memory, std::uint64_t bytes,
                std::unique_ptr<Lent> lent);

 private:
  friend class Peers;
  const ProcessId id_;
  fw_channel* const channel_;
  std::atomic<bool> ended_{false};
};

// What came of reaching a process: a channel, or why there is none and never will be while both
// processes live. Both sides come to the same answer.
struct Reach {
  std::shared_ptr<PeerProcess> process;  // null without a channel, and for this process itself
  bool loopback = false;
  std::string refusal;  // why not
};

// Thread-safe.
class Peers {
 public:
  using Reached = std::function<void(const Reach&)>;

  Peers(fw_device* device, Mailbox* mailbox);

  const fw_identity& own() const { return own_; }
  // Whether this side is the one to connect to `peer`.
  bool connects_to(const ProcessId& peer) const { return ProcessId::of(own_) < peer; }

  // Calls `reached` once, maybe at once, maybe on another thread. Where the peer is the one to
  // connect, it waits for that.
  void reach(const fw_identity& peer, Reached reached);
  // The peer said that it cannot connect to us, and why.
  void refused_by(const ProcessId& peer, const std::string& reason);
  void accept_loop();

  // For stats: a JSON list.
  std::string links_json() const;

 private:
  struct Entry {
    Reach reach;
    bool settled = false;
    bool connecting = false;
    std::string endpoint;
    std::vector<Reached> waiting;
  };

  void connect(const fw_identity& peer);
  void settle(const ProcessId& id, Reach reach);
  void serve(const ProcessId& id, fw_channel* channel);
  static void on_notification(void* context, const fw_notification* notification);
  static void on_end(void* context, int good_order, const char* reason);

  fw_device* const device_;
  Mailbox* const mailbox_;
  fw_identity own_{};
  mutable std::mutex mutex_;
  std::map<ProcessId, Entry> entries_;
};

}  // namespace farwrite::plugin
