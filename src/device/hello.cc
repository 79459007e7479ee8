#include "device/hello.h"

#include <algorithm>
#include <utility>

#include "core/fields.h"
#include "core/option.h"
#include "device/frame.h"

namespace farwrite::device {
namespace {

constexpr std::uint32_t kMagic = 0x54525746;  // "FWRT"
constexpr std::size_t kMaxHostBytes = 255;
constexpr std::size_t kMaxFabrics = 16;
constexpr char kUnprintable = '?';
constexpr std::size_t kMaxAddressBytes = 1024;
constexpr std::size_t kMaxOriginBytes = 512;
constexpr std::size_t kMaxServiceBytes = 64;
constexpr std::string_view kReadHandshake = "read a handshake";
constexpr std::string_view kNoHello = "it is no hello";
constexpr core::Reading kReading = {.operation = kReadHandshake, .tail = core::TailBytes::kAllowed};

// What a peer says of itself goes into our errors and our log.
std::string printable(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = kUnprintable;
  }
  return text;
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
  hello.service = self.service;
  for (const fabric::Fabric* fabric : self.fabrics) hello.fabrics.push_back(fabric->kind());
  return hello;
}

template <typename Wire>
void Hello::proven_fields(Wire& wire) {
  wire(core::constant(kMagic, kNoHello), versions.min, versions.max, uuid, epoch, nonce, has_token,
       lanes, core::sized(endpoint.host, kMaxHostBytes), endpoint.port,
       core::list<std::uint8_t>(fabrics, kMaxFabrics, kNoHello));
  wire.require(lanes > 0, kNoHello);
}

template <typename Wire>
void Hello::fields(Wire& wire) {
  proven_fields(wire);
  if constexpr (Wire::kReads) {
    if (!wire.ok()) return wire.fail(not_farwrite(kReadHandshake));
    // Earlier releases end here, or behind one of these.
    if (wire.remaining() > 0) wire(core::sized(name, core::kMaxDeviceNameBytes));
    if (wire.remaining() > 0) wire(core::sized(token_origin, kMaxOriginBytes));
    if (wire.remaining() > 0) wire(core::sized(service, kMaxServiceBytes));
    for (std::string* text : {&name, &token_origin, &service}) *text = printable(std::move(*text));
  } else {
    std::string origin = token_origin.substr(0, kMaxOriginBytes);
    wire(core::sized(name, core::kMaxDeviceNameBytes), core::sized(origin, kMaxOriginBytes),
         core::sized(service, kMaxServiceBytes));
  }
}

template <typename Wire>
void HelloReply::fields(Wire& wire) {
  wire(version, proof, hello);
}

template <typename Wire>
void TryFabric::fields(Wire& wire) {
  wire(kind, core::sized(address, kMaxAddressBytes));
}

std::vector<std::byte> Hello::to_bytes() const { return core::to_bytes(*this); }
std::vector<std::byte> HelloReply::to_bytes() const { return core::to_bytes(*this); }
std::vector<std::byte> TryFabric::to_bytes() const { return core::to_bytes(*this); }

Result<Hello> Hello::from_bytes(ByteView bytes) { return core::from_bytes<Hello>(bytes, kReading); }
Result<HelloReply> HelloReply::from_bytes(ByteView bytes) {
  return core::from_bytes<HelloReply>(bytes, kReading);
}
Result<TryFabric> TryFabric::from_bytes(ByteView bytes) {
  return core::from_bytes<TryFabric>(bytes, kReading);
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
  core::FieldWriter writer(both);
  for (Hello hello : {connecting, accepting}) hello.proven_fields(writer);
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
