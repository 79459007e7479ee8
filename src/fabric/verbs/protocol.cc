#include "fabric/verbs/protocol.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "core/fields.h"

namespace farwrite::fabric::verbs {
namespace {

constexpr std::uint32_t kMagic = 0x42565746;  // "FWVB"
constexpr std::string_view kOtherProgram = "a connection from another program";

constexpr core::Reading reading(std::string_view operation, core::TailBytes tail) {
  return {.operation = operation, .tail = tail, .remedy = core::kBrokenRule, .fabric = "verbs"};
}

Status malformed(std::string_view what, std::string_view remedy = core::kBrokenRule) {
  return Status::error(StatusCode::kProtocolError, {"exchange messages with the peer", "", "verbs"},
                       what, remedy);
}

core::Digest keyed(const Secret& secret, std::string_view label, std::uint32_t number) {
  core::WireWriter message;
  message.string(label);
  message.u32(number);
  return core::hmac_sha256({secret.data(), secret.size()}, message.view());
}

}  // namespace

JoinMessage JoinMessage::of(const Secret& secret, std::uint16_t lane, std::uint16_t lanes) {
  JoinMessage message;
  message.lane = lane;
  message.lanes = lanes;
  const core::Digest digest = keyed(secret, "farwrite verbs link", lanes);
  std::copy_n(digest.begin(), message.link.size(), message.link.begin());
  return message;
}

template <typename Wire>
void JoinMessage::fields(Wire& wire) {
  std::uint16_t version = kProtocolVersion;
  wire(core::constant(kMagic, kOtherProgram), version, lane, lanes, link);
  if constexpr (Wire::kReads) {
    if (!wire.ok() || version == kProtocolVersion) return;
    wire.fail(malformed("the peer uses version " + std::to_string(version) +
                            " of the verbs protocol, and this side version " +
                            std::to_string(kProtocolVersion),
                        "run the same Farwrite release on both sides"));
  }
}

std::array<std::byte, kPrivateDataBytes> JoinMessage::to_bytes() const {
  return core::to_array<kPrivateDataBytes>(*this);
}

Result<JoinMessage> JoinMessage::from_bytes(ByteView bytes) {
  return core::from_bytes<JoinMessage>(
      bytes, {.operation = "join a lane",
              .tail = core::TailBytes::kAllowed,
              .remedy = "check which program connects to the adapter's port",
              .fabric = "verbs"});
}

core::Digest lane_proof(const Secret& secret, bool connecting, std::uint16_t lane) {
  return keyed(secret, connecting ? "farwrite verbs connecting" : "farwrite verbs accepting", lane);
}

template <typename Wire>
void HelloMessage::fields(Wire& wire) {
  wire(credits, message_bytes, flush_address, flush_key, flush_by_atomic, data_in_order);
  wire.require(credits > 0 && credits <= (1U << 20), "an implausible credit");
  wire.require(message_bytes >= kBounceBytes, "receives that are too short");
}

std::vector<std::byte> HelloMessage::to_bytes() const { return core::to_bytes(*this); }

Result<HelloMessage> HelloMessage::from_bytes(ByteView bytes) {
  return core::from_bytes<HelloMessage>(bytes, reading("begin a lane", core::TailBytes::kAllowed));
}

template <typename Wire>
void MessageHeader::fields(Wire& wire) {
  wire(type, core::Reserved<3>(), tag, value);
}

std::array<std::byte, MessageHeader::kBytes> MessageHeader::to_bytes() const {
  return core::to_array<kBytes>(*this);
}

Result<MessageHeader> MessageHeader::from_bytes(ByteView bytes) {
  Result<MessageHeader> header =
      core::from_bytes<MessageHeader>(bytes, reading("read a message", core::TailBytes::kAllowed));
  if (!header.ok()) return header;
  switch (header->type) {
    case MessageType::kNotify:
    case MessageType::kMessage:
    case MessageType::kRecord:
    case MessageType::kCredit:
    case MessageType::kRevoke:
    case MessageType::kRevoked:
    case MessageType::kEnd:
    case MessageType::kProof:
    case MessageType::kHello:
      return header;
  }
  return malformed("a message of unknown type " +
                   std::to_string(static_cast<unsigned>(header->type)));
}

namespace {

struct Revocation {
  std::vector<std::uint64_t> regions;

  template <typename Wire>
  void fields(Wire& wire) {
    wire(core::list<std::uint32_t>(regions, kMaxRevokedAtOnce, "too many revocations at once"));
  }
};

}  // namespace

std::vector<std::byte> regions_to_bytes(const std::vector<std::uint64_t>& regions) {
  return core::to_bytes(Revocation{regions});
}

Result<std::vector<std::uint64_t>> regions_from_bytes(ByteView bytes) {
  Result<Revocation> revocation =
      core::from_bytes<Revocation>(bytes, reading("revoke access", core::TailBytes::kRejected));
  if (!revocation.ok()) return revocation.status();
  return std::move(revocation->regions);
}

}  // namespace farwrite::fabric::verbs
