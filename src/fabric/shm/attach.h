// How two processes on one host set a link up over a unix socket.
//
//   connecting side                               accepting side
//   ATTACH  {proof, geometry} + fds  ----------->
//                                    <-----------  ATTACHED {nonce read from their mailbox,
//                                                            geometry} + fds
//   CONFIRM {nonce read from ours}   ----------->
//
// The fds are the sender's mailbox and one doorbell (an eventfd) per lane. The proof is an HMAC
// under the secret of the authenticated handshake. That each side can read the other's nonce out
// of memory proves one host, which no address can.
#pragma once

#include <cstdint>
#include <vector>

#include "core/sha256.h"
#include "core/unique_fd.h"
#include "fabric/fabric.h"
#include "fabric/shm/mailbox.h"
#include "fabric/shm/packet_socket.h"

namespace farwrite::fabric::shm {

// Everything a link starts with.
struct Attachment {
  core::UniqueFd socket;
  // Two devices of one process, as in tests, need no proof of death.
  bool same_process = false;
  core::UniqueFd pidfd;  // as peer_pidfd() says
  OwnMailbox own;
  PeerMailbox peer;
  std::vector<core::UniqueFd> own_doorbells;   // the peer rings these
  std::vector<core::UniqueFd> peer_doorbells;  // we ring these
  core::UniqueFd spare;  // given up for the peer's first segment where no descriptor is left
};

// What an accepting side finds in a new connection's first packet.
struct AttachOffer {
  core::Digest proof{};
  MailboxGeometry geometry;
  core::UniqueFd mailbox;
  std::vector<core::UniqueFd> doorbells;

  static Result<AttachOffer> decode(Packet packet);
  // The proof alone, from the bytes of the packet.
  static Result<core::Digest> peek_proof(ByteView bytes);
};

// The proof that belongs to a handshake's secret.
core::Digest attach_proof(const std::array<std::byte, 32>& secret);

Result<Attachment> attach_connecting(core::UniqueFd socket, const AttachRequest& request);
Result<Attachment> attach_accepting(core::UniqueFd socket, AttachOffer offer,
                                    const AttachRequest& request);

}  // namespace farwrite::fabric::shm
