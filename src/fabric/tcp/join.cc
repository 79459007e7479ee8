#include "fabric/tcp/join.h"

#include <algorithm>
#include <string_view>

#include "core/wire.h"

namespace farwrite::fabric::tcp {
namespace {

constexpr std::uint32_t kMagic = 0x50435446;  // "FTCP"
constexpr std::uint16_t kJoin = 1;
constexpr std::uint16_t kJoined = 2;

// The devices agreed on a wire version before, over another connection.
Status not_this(std::string_view what, bool farwrite) {
  return Status::error(
      StatusCode::kProtocolError, {"join a lane"}, what,
      farwrite ? core::kBrokenRule : "check which program listens or connects at the data port");
}

core::Digest keyed(const Secret& secret, std::string_view label, std::uint16_t lane,
                   std::uint32_t lanes) {
  core::WireWriter message;
  message.string(label);
  message.u16(lane);
  message.u32(lanes);
  return core::hmac_sha256({secret.data(), secret.size()}, message.view());
}

template <std::size_t Bytes>
std::array<std::byte, Bytes> copy_out(const core::WireWriter& writer) {
  std::array<std::byte, Bytes> bytes{};
  std::copy_n(writer.buffer().begin(), Bytes, bytes.begin());
  return bytes;
}

}  // namespace

JoinMessage JoinMessage::of(const Secret& secret, std::uint16_t lane, std::uint32_t lanes) {
  return {lane, lanes, keyed(secret, "farwrite tcp connecting lane", lane, lanes)};
}

std::array<std::byte, JoinMessage::kBytes> JoinMessage::to_bytes() const {
  core::WireWriter writer;
  writer.u32(kMagic);
  writer.u16(kJoin);
  writer.u16(lane);
  writer.u32(lanes);
  writer.bytes({proof.data(), proof.size()});
  return copy_out<kBytes>(writer);
}

Result<JoinMessage> JoinMessage::from_bytes(ByteView bytes) {
  core::WireReader reader(bytes);
  const bool magic = reader.u32() == kMagic;
  const bool right = reader.u16() == kJoin && magic;
  JoinMessage message;
  message.lane = reader.u16();
  message.lanes = reader.u32();
  const ByteView proof = reader.bytes(message.proof.size());
  if (!right) {
    return not_this("the connection does not begin with a JOIN", magic);
  }
  FARWRITE_RETURN_IF_ERROR(reader.finish("join a lane"));
  std::copy_n(proof.data, proof.size, message.proof.begin());
  return message;
}

JoinedMessage JoinedMessage::of(const Secret& secret, std::uint16_t lane) {
  return {lane, keyed(secret, "farwrite tcp accepting lane", lane, 0)};
}

std::array<std::byte, JoinedMessage::kBytes> JoinedMessage::to_bytes() const {
  core::WireWriter writer;
  writer.u32(kMagic);
  writer.u16(kJoined);
  writer.u16(lane);
  writer.bytes({proof.data(), proof.size()});
  return copy_out<kBytes>(writer);
}

Result<JoinedMessage> JoinedMessage::from_bytes(ByteView bytes) {
  core::WireReader reader(bytes);
  const bool magic = reader.u32() == kMagic;
  const bool right = reader.u16() == kJoined && magic;
  JoinedMessage message;
  message.lane = reader.u16();
  const ByteView proof = reader.bytes(message.proof.size());
  if (!right) return not_this("the answer is not a JOINED", magic);
  FARWRITE_RETURN_IF_ERROR(reader.finish("join a lane"));
  std::copy_n(proof.data, proof.size, message.proof.begin());
  return message;
}

}  // namespace farwrite::fabric::tcp
