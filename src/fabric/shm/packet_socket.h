// PacketSocket: whole packets with file descriptors over a unix SOCK_SEQPACKET socket.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/deadline.h"
#include "core/unique_fd.h"
#include "farwrite/bytes.h"
#include "farwrite/status.h"

namespace farwrite::fabric::shm {

inline constexpr std::size_t kMaxPacketBytes = 4096;
// A mailbox and one doorbell per lane.
inline constexpr std::size_t kMaxPacketFds = 80;

struct Packet {
  std::vector<std::byte> bytes;
  std::vector<core::UniqueFd> fds;
};

// Abstract names belong to a network namespace and leave nothing in the file system.
Result<core::UniqueFd> listen_abstract(const std::string& name);
// Waits while the listener is busy; kUnavailable if nothing of that name listens on this host.
Result<core::UniqueFd> connect_abstract(const std::string& name, core::Deadline deadline);

// The sockets are non-blocking; these wait until the deadline. `operation` goes into errors.
Status send_packet(int socket, ByteView bytes, const std::vector<int>& fds, core::Deadline deadline,
                   std::string_view operation);
// kUnavailable when the peer has closed; kProtocolError when a packet was cut; kResourceExhausted
// when this process had no room for its descriptors: with `fds_missing`, such a packet is returned
// with those that had room.
Result<Packet> receive_packet(int socket, core::Deadline deadline, std::string_view operation,
                              bool* fds_missing = nullptr);
Status no_room_for_fds(std::string_view operation);

// The bytes of the packet that comes next, which stays where it is, with its descriptors: they cost
// this process nothing yet. Empty if none has come; otherwise fails as receive_packet().
Result<std::vector<std::byte>> peek_packet(int socket, std::string_view operation);

// Refuses (kPermissionDenied) a peer of another user.
Status check_same_user(int socket);
// A descriptor that becomes readable when the peer's process is gone; invalid if the kernel cannot
// tell (the peer lives in a process namespace we do not see). kResourceExhausted.
Result<core::UniqueFd> peer_pidfd(int socket);
// The peer's process id as the kernel saw it at connect time, 0 if invisible.
pid_t peer_pid(int socket);

}  // namespace farwrite::fabric::shm
