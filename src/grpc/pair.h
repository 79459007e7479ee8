// Pair: the Farwrite channel to another process, which carries all upgraded connections to it.
#pragma once

#include <cstdint>
#include <memory>

#include "core/mutex.h"
#include "farwrite/channel.h"
#include "farwrite/device.h"
#include "farwrite/stream.h"

namespace farwrite::grpc {

// Thread-safe.
class Pair {
 public:
  static Result<std::shared_ptr<Pair>> create(Device device, Channel channel,
                                              const stream::Options& options);
  ~Pair();
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  const PeerInfo& peer() const { return channel_.peer(); }
  bool maps_peer_memory() const { return channel_.maps_peer_memory(); }
  bool is_open() const { return channel_.peer_state() <= PeerState::kSilent; }
  stream::Streams& streams() { return streams_; }

  // What the connections of the pair share with gRPC's poller; whichever thread makes it decides
  // what it is.
  std::shared_ptr<void> watch(const std::function<std::shared_ptr<void>()>& make);

 private:
  Pair(Channel channel, stream::Streams streams)
      : channel_(std::move(channel)), streams_(std::move(streams)) {}

  const Channel channel_;
  stream::Streams streams_;
  core::Mutex mutex_{core::LockRank::kProgram, 1};
  std::weak_ptr<void> watch_ FW_GUARDED_BY(mutex_);
};

}  // namespace farwrite::grpc
