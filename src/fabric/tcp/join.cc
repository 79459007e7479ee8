#include "fabric/tcp/join.h"

#include <string_view>

#include "core/fields.h"

namespace farwrite::fabric::tcp {
namespace {

constexpr std::uint32_t kMagic = 0x50435446;  // "FTCP"
enum class JoinPacket : std::uint16_t { kJoin = 1, kJoined = 2 };

// The devices agreed on a wire version before, over another connection.
template <typename Message>
Result<Message> read(ByteView bytes) {
  std::uint32_t magic = 0;
  core::FieldReader{bytes}(magic);
  return core::from_bytes<Message>(
      bytes,
      {.operation = "join a lane",
       .remedy = magic == kMagic ? core::kBrokenRule
                                 : "check which program listens or connects at the data port"});
}

core::Digest keyed(const Secret& secret, std::string_view label, std::uint16_t lane,
                   std::uint32_t lanes) {
  core::WireWriter message;
  message.string(label);
  message.u16(lane);
  message.u32(lanes);
  return core::hmac_sha256({secret.data(), secret.size()}, message.view());
}

}  // namespace

JoinMessage JoinMessage::of(const Secret& secret, std::uint16_t lane, std::uint32_t lanes) {
  return {lane, lanes, keyed(secret, "farwrite tcp connecting lane", lane, lanes)};
}

template <typename Wire>
void JoinMessage::fields(Wire& wire) {
  constexpr std::string_view kOther = "the connection does not begin with a JOIN";
  wire(core::constant(kMagic, kOther), core::constant(JoinPacket::kJoin, kOther), lane, lanes,
       proof);
}

std::array<std::byte, JoinMessage::kBytes> JoinMessage::to_bytes() const {
  return core::to_array<kBytes>(*this);
}

Result<JoinMessage> JoinMessage::from_bytes(ByteView bytes) { return read<JoinMessage>(bytes); }

JoinedMessage JoinedMessage::of(const Secret& secret, std::uint16_t lane) {
  return {lane, keyed(secret, "farwrite tcp accepting lane", lane, 0)};
}

template <typename Wire>
void JoinedMessage::fields(Wire& wire) {
  constexpr std::string_view kOther = "the answer is not a JOINED";
  wire(core::constant(kMagic, kOther), core::constant(JoinPacket::kJoined, kOther), lane, proof);
}

std::array<std::byte, JoinedMessage::kBytes> JoinedMessage::to_bytes() const {
  return core::to_array<kBytes>(*this);
}

Result<JoinedMessage> JoinedMessage::from_bytes(ByteView bytes) {
  return read<JoinedMessage>(bytes);
}

}  // namespace farwrite::fabric::tcp
