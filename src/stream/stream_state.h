// StreamState: one end of a stream: its two directions, and how they end together.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "stream/incoming.h"
#include "stream/outgoing.h"
#include "stream/stream.h"

namespace farwrite::stream {

// Thread-safe.
class StreamState {
 public:
  StreamState(const std::shared_ptr<StreamLink>& link, std::uint64_t number, const Options& options)
      : link_(link),
        number_(number),
        outgoing_(std::make_shared<Outgoing>(link, number, options)),
        incoming_(std::make_shared<Incoming>(link, number, options)) {}

  Outgoing& outgoing() { return *outgoing_; }
  Incoming& incoming() { return *incoming_; }

  // A frame of the peer; `message` holds its payload.
  void take(const StreamFrame& frame, std::vector<std::byte> message, RemoteRegion lent);
  // Ends both directions, and tells the peer.
  void abort(const Status& reason);
  // The channel has ended: what has come is still read.
  void end(const Status& reason);

 private:
  const std::shared_ptr<StreamLink> link_;
  const std::uint64_t number_;
  const std::shared_ptr<Outgoing> outgoing_;
  const std::shared_ptr<Incoming> incoming_;
  std::atomic<bool> aborted_{false};  // by either side: the peer knows
};

}  // namespace farwrite::stream
