// What two verbs links say to each other besides RDMA: at the connection, then on the lanes.
//
//   connecting side                                     accepting side
//   rdma_cm request, private data JOIN {lane, link} -->
//                                                   <-- accepted
//   SEND kProof {HMAC}                              -->
//                                                   <-- SEND kProof {HMAC}
//   SEND kHello {keys}                              -->
//                                                   <-- SEND kHello {keys}
//
// Private data is 56 bytes and travels in the clear, so it holds no proof; the proofs are HMACs
// under the secret of the authenticated handshake, and no key goes to a peer that has not given its
// own.
//
// Every SEND begins with a MessageHeader. Peers are authenticated, and nothing they say is trusted:
// what does not decode breaks the link.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/sha256.h"
#include "farwrite/bytes.h"
#include "farwrite/status.h"

namespace farwrite::fabric::verbs {

using Secret = std::array<std::byte, 32>;

inline constexpr std::size_t kPrivateDataBytes = 56;  // what rdma_cm carries for RDMA_PS_TCP
inline constexpr std::uint16_t kProtocolVersion = 1;

// Leads a connection to its handshake.
struct JoinMessage {
  std::uint16_t lane = 0;
  std::uint16_t lanes = 1;
  std::array<std::byte, 16> link{};  // made from the secret; tells nothing about it

  static JoinMessage of(const Secret& secret, std::uint16_t lane, std::uint16_t lanes);
  template <typename Wire>
  void fields(Wire& wire);
  std::array<std::byte, kPrivateDataBytes> to_bytes() const;
  // `bytes` may be longer: drivers pad. kProtocolError names both versions if they differ.
  static Result<JoinMessage> from_bytes(ByteView bytes);
  bool operator==(const JoinMessage&) const = default;
};

// What one side proves on a lane.
core::Digest lane_proof(const Secret& secret, bool connecting, std::uint16_t lane);

// What one side tells of a lane once the other has proven itself.
struct HelloMessage {
  std::uint32_t credits = 0;        // notifications and messages it takes at first
  std::uint32_t message_bytes = 0;  // the longest it takes, with its header
  std::uint64_t flush_address = 0;  // eight bytes that its peer may read and add 0 to
  std::uint32_t flush_key = 0;
  bool flush_by_atomic = false;  // its memory is relaxed-ordered: a read flushes nothing
  bool data_in_order = false;    // the bytes of one write land in order there

  template <typename Wire>
  void fields(Wire& wire);
  std::vector<std::byte> to_bytes() const;
  static Result<HelloMessage> from_bytes(ByteView bytes);
};

// The numbers are the wire protocol: never renumber.
enum class MessageType : std::uint8_t {
  kNotify = 1,   // raises `tag`; where there is no immediate data
  kMessage = 2,  // payload and `tag`, for the user
  kRecord = 3,   // payload and `tag`, for the device layer
  // From here on they cost no credit: what may be under way is bounded (kReservedReceives).
  kCredit = 16,   // `value` more notifications and messages may be sent
  kRevoke = 17,   // payload: ids of regions that must not be written any more; `value` names it
  kRevoked = 18,  // on every lane, behind the last write: that revocation is done
  kEnd = 19,      // nothing of ours follows on this lane
  kProof = 20,
  kHello = 21,
};

constexpr bool costs_credit(MessageType type) { return type < MessageType::kCredit; }

struct MessageHeader {
  MessageType type = MessageType::kNotify;
  std::uint32_t tag = 0;
  std::uint64_t value = 0;

  static constexpr std::size_t kBytes = 16;
  template <typename Wire>
  void fields(Wire& wire);
  std::array<std::byte, kBytes> to_bytes() const;
  // kProtocolError for an unknown type or fewer than kBytes.
  static Result<MessageHeader> from_bytes(ByteView bytes);
};

// A message of those that cost no credit, once it has come.
struct ControlMessage {
  MessageHeader header;
  std::vector<std::byte> payload;
};

// Region ids in a kRevoke.
std::vector<std::byte> regions_to_bytes(const std::vector<std::uint64_t>& regions);
Result<std::vector<std::uint64_t>> regions_from_bytes(ByteView bytes);

// A key of a descriptor: where a segment begins in its owner's memory, and its remote key. Segments
// begin at multiples of 2 MiB, and addresses have at most 53 bits.
struct SegmentKey {
  std::uint64_t address = 0;
  std::uint32_t remote_key = 0;

  static constexpr unsigned kAddressShift = 21;
  std::uint64_t pack() const { return address >> kAddressShift << 32 | remote_key; }
  static SegmentKey unpack(std::uint64_t key) {
    return {key >> 32 << kAddressShift, static_cast<std::uint32_t>(key)};
  }
};

// The longest message of a user, and of the device layer with its headroom.
inline constexpr std::uint64_t kMaxMessageBytes = 8 * 1024;
inline constexpr std::size_t kBounceBytes = 8 * 1024 + 256;  // of one send or receive buffer
// Receives on top of the credits. Under way at once: four kCredit (each gives back a quarter), one
// kRevoke, one kRevoked, one kEnd; the rest is for peers that count a little differently.
inline constexpr std::uint32_t kReservedReceives = 16;
// kRevoke names at most so many.
inline constexpr std::size_t kMaxRevokedAtOnce = 1000;

}  // namespace farwrite::fabric::verbs
