#include "device/hello.h"

#include <algorithm>

#include "core/option.h"
#include "core/wire.h"
#include "device/frame.h"

namespace farwrite::device {
namespace {

constexpr std::uint32_t kMagic = 0x54525746;  // "FWRT"
constexpr std::size_t kMaxHostBytes = 255;
constexpr std::size_t kMaxFabrics = 16;
constexpr char kUnprintable = '?';
constexpr std::size_t kMaxAddressBytes = 1024;
constexpr std::size_t kMaxOriginBytes = 512;
constexpr std::string_view kReadHandshake = "read a handshake";

// What the proofs cover.
void write_proven(core::WireWriter& writer, const Hello& hello) {
  writer.u32(kMagic);
  writer.u16(hello.versions.min);
  writer.u16(hello.versions.max);
  writer.bytes({hello.uuid.data(), hello.uuid.size()});
  writer.u64(hello.epoch);
  writer.bytes({hello.nonce.data(), hello.nonce.size()});
  writer.u8(hello.has_token ? 1 : 0);
  writer.u32(hello.lanes);
  writer.string(hello.endpoint.host);
  writer.u16(hello.endpoint.port);
  writer.u8(static_cast<std::uint8_t>(hello.fabrics.size()));
  for (const FabricKind kind : hello.fabrics) writer.u8(static_cast<std::uint8_t>(kind));
}

void write_hello(core::WireWriter& writer, const Hello& hello) {
  write_proven(writer, hello);
  writer.string(hello.name);
  writer.string(std::string_view(hello.token_origin).substr(0, kMaxOriginBytes));
}

// What a peer says of itself goes into our errors and our log.
std::string printable(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = kUnprintable;
  }
  return text;
}

// False if the bytes do not start like a hello; other damage is left to reader.finish().
bool read_hello(core::WireReader& reader, Hello& hello) {
  const bool magic = reader.u32() == kMagic;
  hello.versions.min = reader.u16();
  hello.versions.max = reader.u16();
  const ByteView uuid = reader.bytes(hello.uuid.size());
  hello.epoch = reader.u64();
  const ByteView nonce = reader.bytes(hello.nonce.size());
  hello.has_token = reader.u8() != 0;
  hello.lanes = reader.u32();
  hello.endpoint.host = reader.string(kMaxHostBytes);
  hello.endpoint.port = reader.u16();
  const std::uint8_t fabrics = reader.u8();
  const ByteView kinds = reader.bytes(std::min<std::size_t>(fabrics, kMaxFabrics));
  if (!magic || !reader.ok() || fabrics > kMaxFabrics || hello.lanes == 0) return false;
  std::copy_n(reinterpret_cast<const std::uint8_t*>(uuid.data), uuid.size, hello.uuid.begin());
  std::copy_n(nonce.data, nonce.size, hello.nonce.begin());
  for (std::size_t i = 0; i < kinds.size; ++i) {
    hello.fabrics.push_back(static_cast<FabricKind>(kinds.data[i]));
  }
  // Earlier releases end here.
  if (reader.remaining() > 0) hello.name = printable(reader.string(core::kMaxDeviceNameBytes));
  if (reader.remaining() > 0) hello.token_origin = printable(reader.string(kMaxOriginBytes));
  return true;
}

std::string range(const WireVersions& versions) {
  return std::to_string(versions.min) + " to " + std::to_string(versions.max);
}

}  // namespace

Hello Hello::of(const LocalIdentity& self) {
  Hello hello;
  hello.versions = self.versions;
  hello.uuid = self.uuid;
  hello.epoch = self.epoch;
  core::random_bytes({hello.nonce.data(), hello.nonce.size()});
  hello.has_token = !self.token.empty();
  hello.token_origin = self.token_origin;
  hello.lanes = self.lanes;
  hello.endpoint = self.endpoint;
  hello.name = self.name;
  for (const fabric::Fabric* fabric : self.fabrics) hello.fabrics.push_back(fabric->kind());
  return hello;
}

std::vector<std::byte> Hello::to_bytes() const {
  core::WireWriter writer;
  write_hello(writer, *this);
  return writer.take();
}

Result<Hello> Hello::from_bytes(ByteView bytes) {
  core::WireReader reader(bytes);
  Hello hello;
  if (!read_hello(reader, hello)) return not_farwrite(kReadHandshake);
  FARWRITE_RETURN_IF_ERROR(reader.finish(kReadHandshake, core::TailBytes::kAllowed));
  return hello;
}

std::vector<std::byte> HelloReply::to_bytes() const {
  core::WireWriter writer;
  writer.u16(version);
  writer.bytes({proof.data(), proof.size()});
  write_hello(writer, hello);
  return writer.take();
}

Result<HelloReply> HelloReply::from_bytes(ByteView bytes) {
  core::WireReader reader(bytes);
  HelloReply reply;
  reply.version = reader.u16();
  const ByteView proof = reader.bytes(reply.proof.size());
  if (!reader.ok() || !read_hello(reader, reply.hello)) return not_farwrite(kReadHandshake);
  FARWRITE_RETURN_IF_ERROR(reader.finish(kReadHandshake, core::TailBytes::kAllowed));
  std::copy_n(proof.data, proof.size, reply.proof.begin());
  return reply;
}

std::vector<std::byte> TryFabric::to_bytes() const {
  core::WireWriter writer;
  writer.u8(static_cast<std::uint8_t>(kind));
  writer.string(address);
  return writer.take();
}

Result<TryFabric> TryFabric::from_bytes(ByteView bytes) {
  core::WireReader reader(bytes);
  TryFabric message;
  message.kind = static_cast<FabricKind>(reader.u8());
  message.address = reader.string(kMaxAddressBytes);
  FARWRITE_RETURN_IF_ERROR(reader.finish(kReadHandshake, core::TailBytes::kAllowed));
  return message;
}

Result<std::uint16_t> choose_version(const WireVersions& ours, const WireVersions& theirs) {
  const std::uint16_t best = std::min(ours.max, theirs.max);
  if (best >= ours.min && best >= theirs.min && theirs.min <= theirs.max) return best;
  return Status::error(
      StatusCode::kVersionMismatch, {"connect"},
      "this side supports wire versions " + range(ours) + ", the peer " + range(theirs),
      "run Farwrite releases that are at most one wire version apart");
}

Transcript::Transcript(const Hello& connecting, const Hello& accepting, std::string_view token) {
  core::WireWriter both;
  write_proven(both, connecting);
  write_proven(both, accepting);
  const auto keyed = [&](std::string_view label) {
    core::WireWriter message;
    message.string(label);
    message.bytes(both.view());
    return core::hmac_sha256({token.data(), token.size()}, message.view());
  };
  accepting_proof = keyed("farwrite accepting side");
  connecting_proof = keyed("farwrite connecting side");
  secret = keyed("farwrite fabric secret");
}

}  // namespace farwrite::device
