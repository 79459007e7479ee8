// TCP sockets: how to listen and connect, blocking calls with deadlines, and options.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

#include "core/deadline.h"
#include "core/unique_fd.h"
#include "farwrite/bytes.h"
#include "farwrite/endpoint.h"
#include "farwrite/options.h"
#include "farwrite/status.h"

namespace farwrite::core {

struct Listener {
  UniqueFd socket;    // non-blocking
  Endpoint endpoint;  // with the port that was picked
};

// kAlreadyExists if the port is taken, kInvalidArgument if the host does not resolve to this one.
// Port 0 takes one as core/port_choice.h says; kAlreadyExists if all of `range` are taken.
Result<Listener> listen_tcp(const Endpoint& endpoint, const PortRange& range = {});

// A connected, non-blocking socket without Nagle's delay. kUnavailable if nothing listens there,
// kNotFound if the host has no name or address yet: both may change.
Result<UniqueFd> connect_tcp(const Endpoint& endpoint, Deadline deadline);

// Sends or receives all of `bytes`. kUnavailable when the peer is gone, kDeadlineExceeded.
Status send_all(int socket, ByteView bytes, Deadline deadline, std::string_view operation);
Status receive_all(int socket, MutableByteView bytes, Deadline deadline,
                   std::string_view operation);

// Until poll(2) has one of `events`; neither ready nor an error at the deadline, or when the thread
// is interrupted (core/interrupt.h).
struct PollOutcome {
  bool ready = false;
  int error = 0;  // an errno
};
PollOutcome poll_socket(int socket, short events, Deadline deadline);
// The same, as a Status: kDeadlineExceeded.
Status wait_for(int socket, short events, Deadline deadline, std::string_view operation);
// The end of a connection, in words: kUnavailable. `error_number` is 0 if the peer closed it.
Status connection_lost(std::string_view operation, int error_number);

// Whether bytes, or the end of the connection, are waiting.
bool has_input(int socket);

// Whether the address that a connection was made to is one of the loopback: on the connecting side
// the other end's, on the accepting side, as of a listening socket, its own.
bool connected_to_loopback(int socket);
bool accepts_on_loopback(int socket);

// The numeric address of the other end: "192.0.2.1", "fe80::1%eth0". Empty if it is not connected.
std::string peer_host(int socket);

void set_no_delay(int socket);
// Ends a connection over which nothing was sent, and whose other end answers no probe, after about
// `timeout`.
void set_keepalive(int socket, std::chrono::nanoseconds timeout);
// Ends a connection when what was sent stays unacknowledged for `timeout`. A stopped process'
// kernel acknowledges for it, as long as there is room.
void set_send_timeout(int socket, std::chrono::nanoseconds timeout);

}  // namespace farwrite::core
