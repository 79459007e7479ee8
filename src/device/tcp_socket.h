// The TCP connections that devices meet over: blocking calls with deadlines.
//
// They carry the handshake and control messages only, never a byte of a region.
#pragma once

#include <cstddef>
#include <string_view>

#include "core/deadline.h"
#include "core/unique_fd.h"
#include "farwrite/bytes.h"
#include "farwrite/endpoint.h"
#include "farwrite/status.h"

namespace farwrite::device {

struct Listener {
  core::UniqueFd socket;  // non-blocking
  Endpoint endpoint;      // with the port that was picked
};

// kAlreadyExists if the port is taken, kInvalidArgument if the host does not resolve to this one.
Result<Listener> listen_tcp(const Endpoint& endpoint);

// A connected, non-blocking socket without Nagle's delay. kUnavailable if nobody listens there.
Result<core::UniqueFd> connect_tcp(const Endpoint& endpoint, core::Deadline deadline);

// Sends or receives all of `bytes`. kUnavailable when the peer is gone, kDeadlineExceeded.
Status send_all(int socket, ByteView bytes, core::Deadline deadline, std::string_view operation);
Status receive_all(int socket, MutableByteView bytes, core::Deadline deadline,
                   std::string_view operation);

// Whether bytes, or the end of the connection, are waiting.
bool has_input(int socket);

void set_no_delay(int socket);

}  // namespace farwrite::device
