// Peers: all other processes with the plug-in, and how they reach each other.
//
// Who connects: of two processes the one that the other cannot reach, since it listens for its own
// host alone; else the one with the lower device uuid. Both know both endpoints, so both end up
// with the one channel between them, which they need for both directions.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "core/mutex.h"
#include "farwrite/c_api.h"
#include "peer/peer_process.h"
#include "peer/receiver.h"

namespace farwrite::plugin {

// What came of reaching a process: a channel, or why there is none and never will be while both
// processes live: the connecting side's word, which the other side takes over.
struct Reach {
  std::shared_ptr<PeerProcess> process;  // null without a channel, and for this process itself
  bool loopback = false;
  bool unclear = false;  // nothing decided in time: an error, and try again later
  std::string refusal;   // why not
};

// Thread-safe.
class Peers {
 public:
  using Reached = std::function<void(const Reach&)>;

  // Who gets what peers send, by its tag. All outlive this. Landed tensors go to kLanded.
  using Receivers = std::map<std::uint32_t, Receiver*>;
  static constexpr std::uint32_t kLanded = 0;

  // Tells peers `own_host` if the device listens on every address. `fabric_is_forced`: one fabric
  // alone may be used, and peers that cannot are an error.
  Peers(fw_device* device, Receivers receivers, const std::string& own_host, bool fabric_is_forced);

  fw_device* device() const { return device_; }
  bool fabric_is_forced() const { return fabric_is_forced_; }
  // A few bytes of registered memory, to lend with what is inline: their return says that it was
  // taken. Null if there is no room.
  static constexpr std::uint64_t kReceiptBytes = 64;
  const void* receipt();
  const fw_identity& own() const { return own_; }
  // Whether this side is the one to connect to `peer`.
  bool connects_to(const fw_identity& peer) const;
  // Whether `peer` is reached now: there is a channel to it, or it is this process.
  bool connected(const ProcessId& peer) const;

  // Calls `reached` once, maybe at once, maybe on another thread. Where the peer is the one to
  // connect, it waits for that.
  // `task` names the peer in messages.
  void reach(const std::string& task, const fw_identity& peer, Reached reached);
  // The peer said that it cannot connect to us, and why.
  void refused_by(const std::string& task, const ProcessId& peer, const std::string& reason);
  void accept_loop();

  // Those with a channel.
  std::vector<std::shared_ptr<PeerProcess>> processes() const;

  // For stats: a JSON list.
  std::string links_json() const;

 private:
  struct MetPeer {
    Reach reach;
    bool settled = false;
    std::uint64_t attempt = 0;  // 0: none under way
    std::string task;
    std::string endpoint;
    std::vector<Reached> waiting;
  };

  void connect(const fw_identity& peer);
  // The first answer stands.
  void settle(const ProcessId& id, Reach reach);
  // Nothing has answered the attempt of this number.
  void give_up(const ProcessId& id, std::uint64_t attempt);
  void serve(const fw_peer_info& peer, fw_channel* channel);
  void ended(const std::shared_ptr<PeerProcess>& process, const std::string& what);
  // The peer has broken the protocol: everything ends that waits for it.
  void broken(const std::shared_ptr<PeerProcess>& process, std::string_view how);

  absl::Status take(const fw_notification& message, const std::shared_ptr<PeerProcess>& process);

  // The context of a channel's handlers, until on_end().
  struct ServedPeer;
  static void on_message(void* context, const fw_notification* message);
  static void on_landing(void* context, const fw_landing* landing);
  static void on_end(void* context, int good_order, const fw_status* reason);

  fw_device* const device_;
  const Receivers receivers_;
  const bool fabric_is_forced_;
  fw_identity own_{};
  mutable core::Mutex mutex_{core::LockRank::kProgram};
  std::uint64_t attempts_ FW_GUARDED_BY(mutex_) = 0;
  std::map<ProcessId, MetPeer> met_ FW_GUARDED_BY(mutex_);
  std::once_flag receipt_made_;
  const void* receipt_ = nullptr;
};

}  // namespace farwrite::plugin
