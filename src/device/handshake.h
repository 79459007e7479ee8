// Handshake: two devices meet over TCP, prove that they have the token, and choose a fabric.
//
//   connecting side                                   accepting side
//   HELLO {versions, uuid, epoch, nonce, fabrics} -->
//                                                 <-- HELLO_REPLY {the same, chosen version, proof}
//   PROOF {proof}                                 -->
//                                                 <-- TRY_FABRIC {kind, address}    } until one
//   FABRIC_RESULT                                 --> (both attach meanwhile)       } fabric works
//                                                 <-- FABRIC_RESULT                 } on both sides
//                                                 <-- WELCOME {reason of the choice}
//
// Either side may answer REFUSE {code, message} instead. A proof is an HMAC under the shared token
// over both hellos, so it cannot be replayed or reflected. Before it, a peer learns uuid and epoch;
// no address, key or memory. If the devices encrypt, TLS comes before all that, and a peer that has
// not the token learns nothing.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/byte_stream.h"
#include "core/deadline.h"
#include "core/region.h"
#include "device/channel.h"
#include "fabric/fabric.h"
#include "farwrite/endpoint.h"
#include "farwrite/options.h"
#include "farwrite/status.h"

namespace farwrite::device {

// The wire versions this library speaks.
struct WireVersions {
  std::uint16_t min = 2;
  std::uint16_t max = 2;
};

// How long a side that gives up tries to tell the peer why.
inline constexpr std::chrono::nanoseconds kTellWhy = std::chrono::seconds(1);

// "NAME (HOST:PORT)", or the endpoint alone: how messages name a peer.
std::string describe_peer(const std::string& name, const std::string& endpoint);

// What one side brings to a handshake, by the address of its connection. Outlives it.
struct LocalIdentity {
  WireVersions versions;
  std::string name;
  std::string service;  // PeerInfo::service
  DeviceUuid uuid{};
  std::uint64_t epoch = 0;
  Endpoint endpoint;
  std::uint32_t lanes = 1;
  std::string token;         // empty: none
  std::string token_origin;  // where it comes from, for errors: "the file /home/a/token"
  bool encrypt = false;      // with the token
  // Usable fabrics, best first.
  std::vector<fabric::Fabric*> fabrics;
};

// What a handshake leaves behind on either side.
struct HandshakeResult {
  PeerInfo peer;
  std::uint16_t wire_version = 0;
  std::unique_ptr<fabric::Link> link;
};

// The control connection's stream, over a non-blocking socket: plain or encrypted, as `self` says.
// kUnavailable if it cannot encrypt.
Result<std::unique_ptr<core::ByteStream>> make_control_stream(core::UniqueFd socket,
                                                              const LocalIdentity& self,
                                                              bool connecting);

// Both run in the caller's thread until done or past the deadline. The observer goes into the link
// and must outlive it. `address` names the peer in errors until its own name is known. `heard`, if
// given, is set to whether the peer's first answer has come.
Result<HandshakeResult> introduce_connecting(core::ByteStream& stream, const LocalIdentity& self,
                                             const std::string& address, core::Deadline deadline,
                                             fabric::LinkObserver* observer, bool* heard = nullptr);
Result<HandshakeResult> introduce_accepting(core::ByteStream& stream, const LocalIdentity& self,
                                            core::Deadline deadline,
                                            fabric::LinkObserver* observer);

}  // namespace farwrite::device
