// How a link is asked for, and whom it tells about its peer.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "core/deadline.h"
#include "farwrite/status.h"

namespace farwrite::fabric {

// How a link tells the layer above about its peer. From any thread, without a fabric lock held; its
// end at most once.
class LinkObserver {
 public:
  virtual ~LinkObserver() = default;
  // Proven: the peer's process is gone, the connection reset. Nothing of it lands any more.
  virtual void on_peer_dead(const Status& reason) = 0;
  // What operations are told that this death ends: the reason of an orderly end that came before.
  virtual Status reason_of_end(const Status& death) const { return death; }
  // Whether all is read that the peer has said, so that reason_of_end() stays as it is.
  virtual bool heard_all() const { return true; }
  // The peer broke the protocol: the link is poisoned, the peer may still be alive.
  virtual void on_link_error(const Status& reason) = 0;
  // Whether the peer holds a lease on all these bytes of an export segment. Asked for each read by
  // a fabric that serves reads.
  virtual bool may_read(std::uint64_t /*key*/, std::uint64_t /*offset*/, std::uint64_t /*length*/) {
    return false;
  }
  // A revocation that ended with kPeerSilent would not do so now. Any number of times.
  virtual void on_revoked() {}
};

// The time between two calls of AttachRequest::abandoned.
inline constexpr std::chrono::milliseconds kAskAgain(20);

// One side's request to set the fabric's half of a channel up. Both sides call attach() with the
// same `secret`, which the authenticated handshake made for this channel alone.
struct AttachRequest {
  bool connecting = false;             // true on the side that called connect()
  std::array<std::byte, 32> secret{};  // binds the fabric's connection to the handshake
  std::string peer_name;               // "127.0.0.1:7777", for error sentences
  std::string peer_address;            // the accepting side's Fabric::address(), when connecting
  std::string peer_host;               // the peer's numeric address, as the handshake sees it
  std::uint32_t lanes = 1;
  bool encrypt = false;  // what leaves the host: under keys made from `secret`, or fail
  std::int64_t began = core::now_ns();  // before the peer could connect
  core::Deadline deadline = core::Deadline::never();
  // Asked now and then while the accepting side waits for its peer; true ends the wait at once.
  std::function<bool()> abandoned;
  LinkObserver* observer = nullptr;  // outlives the link
};

}  // namespace farwrite::fabric
