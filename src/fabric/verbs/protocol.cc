#include "fabric/verbs/protocol.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "core/wire.h"

namespace farwrite::fabric::verbs {
namespace {

constexpr std::uint32_t kMagic = 0x42565746;  // "FWVB"

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

std::array<std::byte, kPrivateDataBytes> JoinMessage::to_bytes() const {
  core::WireWriter writer;
  writer.u32(kMagic);
  writer.u16(kProtocolVersion);
  writer.u16(lane);
  writer.u16(lanes);
  writer.bytes({link.data(), link.size()});
  std::array<std::byte, kPrivateDataBytes> bytes{};
  std::copy(writer.buffer().begin(), writer.buffer().end(), bytes.begin());
  return bytes;
}

Result<JoinMessage> JoinMessage::from_bytes(ByteView bytes) {
  core::WireReader reader(bytes);
  const std::uint32_t magic = reader.u32();
  const std::uint16_t version = reader.u16();
  JoinMessage message;
  message.lane = reader.u16();
  message.lanes = reader.u16();
  const ByteView link = reader.bytes(message.link.size());
  FARWRITE_RETURN_IF_ERROR(reader.finish("join a lane", core::TailBytes::kAllowed));
  if (magic != kMagic) {
    return malformed("a connection from another program",
                     "check which program connects to the adapter's port");
  }
  if (version != kProtocolVersion) {
    return malformed("the peer uses version " + std::to_string(version) +
                         " of the verbs protocol, and this side version " +
                         std::to_string(kProtocolVersion),
                     "run the same Farwrite release on both sides");
  }
  std::copy_n(link.data, link.size, message.link.begin());
  return message;
}

core::Digest lane_proof(const Secret& secret, bool connecting, std::uint16_t lane) {
  return keyed(secret, connecting ? "farwrite verbs connecting" : "farwrite verbs accepting", lane);
}

std::vector<std::byte> HelloMessage::to_bytes() const {
  core::WireWriter writer;
  writer.u32(credits);
  writer.u32(message_bytes);
  writer.u64(flush_address);
  writer.u32(flush_key);
  writer.u8(flush_by_atomic ? 1 : 0);
  writer.u8(data_in_order ? 1 : 0);
  return writer.take();
}

Result<HelloMessage> HelloMessage::from_bytes(ByteView bytes) {
  core::WireReader reader(bytes);
  HelloMessage message;
  message.credits = reader.u32();
  message.message_bytes = reader.u32();
  message.flush_address = reader.u64();
  message.flush_key = reader.u32();
  message.flush_by_atomic = reader.u8() != 0;
  message.data_in_order = reader.u8() != 0;
  FARWRITE_RETURN_IF_ERROR(reader.finish("begin a lane", core::TailBytes::kAllowed));
  if (message.credits == 0 || message.credits > (1U << 20)) {
    return malformed("an implausible credit");
  }
  if (message.message_bytes < kSlotBytes) return malformed("receives that are too short");
  return message;
}

std::array<std::byte, MessageHeader::kBytes> MessageHeader::to_bytes() const {
  core::WireWriter writer;
  writer.u8(static_cast<std::uint8_t>(type));
  writer.u8(0);
  writer.u16(0);
  writer.u32(tag);
  writer.u64(value);
  std::array<std::byte, kBytes> bytes{};
  std::copy_n(writer.buffer().begin(), kBytes, bytes.begin());
  return bytes;
}

Result<MessageHeader> MessageHeader::from_bytes(ByteView bytes) {
  core::WireReader reader(bytes);
  MessageHeader header;
  const std::uint8_t type = reader.u8();
  (void)reader.u8();
  (void)reader.u16();
  header.tag = reader.u32();
  header.value = reader.u64();
  FARWRITE_RETURN_IF_ERROR(reader.finish("read a message", core::TailBytes::kAllowed));
  header.type = static_cast<MessageType>(type);
  switch (header.type) {
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
  return malformed("a message of unknown type " + std::to_string(type));
}

std::vector<std::byte> regions_to_bytes(const std::vector<std::uint64_t>& regions) {
  core::WireWriter writer;
  writer.u32(static_cast<std::uint32_t>(regions.size()));
  for (const std::uint64_t region : regions) writer.u64(region);
  return writer.take();
}

Result<std::vector<std::uint64_t>> regions_from_bytes(ByteView bytes) {
  core::WireReader reader(bytes);
  const std::uint32_t count = reader.u32();
  if (count > kMaxRevokedAtOnce) return malformed("a revocation of too many regions");
  std::vector<std::uint64_t> regions(count);
  for (std::uint64_t& region : regions) region = reader.u64();
  FARWRITE_RETURN_IF_ERROR(reader.finish("revoke regions"));
  return regions;
}

}  // namespace farwrite::fabric::verbs
