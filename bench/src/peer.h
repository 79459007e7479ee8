// Peer: one of the two measuring processes, with its device, its channel and its memory.
//
// It uses only Farwrite's public API.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "farwrite/farwrite.h"
#include "phase.h"
#include "stage.h"

namespace farwrite::bench {

struct PeerOptions {
  Role role = Role::kReceiver;
  Op op = Op::kWrite;
  FabricKind fabric = FabricKind::kShm;
  std::uint32_t lanes = 1;
  std::uint64_t pool_bytes = std::uint64_t{1} << 30;
  std::chrono::nanoseconds spin{0};  // DeviceOptions::spin
  int stage_fd = -1;                 // Stage::bytes_for(pool_bytes) bytes; the caller closes it
};

// The costs of starting one process.
struct FirstUse {
  double allocate_seconds = 0;  // for allocating the pool
  double open_seconds = 0;      // for looking up and mapping the other side's pool
  std::uint64_t registrations = 0;
};

// Thread-compatible: one thread calls it, and run_phase() starts the others.
class Peer {
 public:
  // Maps the stage and opens the device.
  static Result<std::unique_ptr<Peer>> open(const PeerOptions& options);
  ~Peer();
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  Endpoint endpoint() const { return device_.endpoint(); }
  // The receiver accepts, and the sender connects to `peer`. Then both allocate, fill and open the
  // regions that the operation needs. Both sides must call it at the same time. `raw_sockets` are
  // connections of the raw loops, one for each lane; none unless the fabric is tcp.
  Result<FirstUse> prepare(const Endpoint& peer, std::vector<int> raw_sockets);
  // Runs one phase together with the other process, which must run the same phase.
  Result<Outcome> run_phase(const Phase& phase);
  Status close();
  // Ends the waits of the other side with an error.
  void give_up() { stage_->give_up(); }

  const PeerOptions& options() const { return options_; }
  Stage& stage() { return *stage_; }
  Channel& channel() { return channel_; }
  const Device& device() const { return device_; }

  // Local memory, or nullptr if this side has none. kWrite: the sender's source is a side, and the
  // receiver's landing region is a pool. kRead: the sender's source is a pool, and the receiver's
  // destination is a side. kAlias: the sender's source is a pool.
  std::byte* pool() const { return data_of(pool_); }  // options().pool_bytes
  std::byte* side() const { return data_of(side_); }  // side_bytes()
  std::uint64_t side_bytes() const { return options_.pool_bytes / 2; }
  // kWrite, kEchoBytes: where answers land at the sender, and their source at the receiver.
  std::byte* echo() const { return data_of(echo_); }
  // The other side's regions.
  const RemoteRegion& remote_pool() const { return remote_pool_; }
  const RemoteRegion& remote_echo() const { return remote_echo_; }
  const std::vector<int>& raw_sockets() const { return raw_sockets_; }

 private:
  explicit Peer(const PeerOptions& options) : options_(options) {}
  static std::byte* data_of(const MemoryRegion& region) {
    return region.valid() ? region.data() : nullptr;
  }
  Status allocate();
  Status publish();
  Status look_up();

  PeerOptions options_;
  std::unique_ptr<Stage> stage_;
  Device device_;
  Channel channel_;
  MemoryRegion pool_, side_, echo_;
  RemoteRegion remote_pool_, remote_echo_;
  std::vector<int> raw_sockets_;
};

// The loops of either side (p2p_sender.cc, p2p_receiver.cc).
Result<Outcome> run_sender(Peer& peer, const Phase& phase);
Result<Outcome> run_receiver(Peer& peer, const Phase& phase);

}  // namespace farwrite::bench
