// UpgradeFrame: what two ends of a gRPC connection tell each other before their bytes leave TCP.
//
//   client                                   server
//     | preface, SETTINGS, kHello ------------> |   the client offers
//     | <------------ SETTINGS, kAnswer, ACK    |   the server's device; a plain server sends none
//     |   (connects a channel, opens a stream)  |
//     | kReady -------------------------------> |   opens its end of the stream
//     | <------------------------------ kSwitch |   the server's later bytes come by the stream
//     | kSwitch ------------------------------> |   the client's as well
//
// Each is the payload of one HTTP/2 frame on stream 0.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "farwrite/bytes.h"
#include "farwrite/region_types.h"
#include "farwrite/status.h"

namespace farwrite::grpc {

// The bytes of the first frame bind the later ones to this connection.
using Nonce = std::array<std::uint8_t, 16>;

enum class UpgradeKind : std::uint8_t { kHello = 1, kAnswer = 2, kReady = 3, kSwitch = 4 };

struct UpgradeFrame {
  UpgradeKind kind = UpgradeKind::kHello;
  Nonce client_nonce{};      // of kHello, repeated by all others
  Nonce server_nonce{};      // of kAnswer, repeated by those behind it
  std::string local;         // kHello, kAnswer: the socket's address at the sender
  std::string remote;        // and the one that it sees at the peer
  std::string host;          // kHello, kAnswer: identifies the sender's host until it restarts
  DeviceUuid device{};       // kHello, kAnswer
  std::string endpoint;      // kAnswer: where the server's device listens
  std::uint64_t stream = 0;  // kReady: the number of the stream

  template <typename Wire>
  void fields(Wire& wire);
  // The whole HTTP/2 frame.
  std::string encode() const;
  // From the payload of an HTTP/2 frame. kProtocolError; kVersionMismatch for another version.
  static Result<UpgradeFrame> decode(ByteView payload);
};

}  // namespace farwrite::grpc
