// The handshake's messages: what they hold, their bytes, and the proofs over them.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/sha256.h"
#include "device/handshake.h"
#include "farwrite/bytes.h"
#include "farwrite/status.h"

namespace farwrite::device {

// One side's introduction of itself.
struct Hello {
  WireVersions versions;
  DeviceUuid uuid{};
  std::uint64_t epoch = 0;
  std::array<std::byte, 32> nonce{};
  bool has_token = false;
  std::uint32_t lanes = 1;
  Endpoint endpoint;
  std::vector<FabricKind> fabrics;
  std::string name;  // for messages alone: no proof covers it; printable
  // Names a file or an option in the error of a mismatch. Proved by nothing; empty from releases
  // that do not send it.
  std::string token_origin;
  std::string service;  // LocalIdentity::service; proved by nothing, and printable

  static Hello of(const LocalIdentity& self);
  template <typename Wire>
  void proven_fields(Wire& wire);  // what the proofs cover
  template <typename Wire>
  void fields(Wire& wire);
  std::vector<std::byte> to_bytes() const;
  // Later versions may append fields. kProtocolError for anything that is no hello.
  static Result<Hello> from_bytes(ByteView bytes);
};

struct HelloReply {
  Hello hello;
  std::uint16_t version = 0;
  core::Digest proof{};

  template <typename Wire>
  void fields(Wire& wire);
  std::vector<std::byte> to_bytes() const;
  static Result<HelloReply> from_bytes(ByteView bytes);
};

struct TryFabric {
  FabricKind kind = FabricKind::kShm;
  std::string address;

  template <typename Wire>
  void fields(Wire& wire);
  std::vector<std::byte> to_bytes() const;
  static Result<TryFabric> from_bytes(ByteView bytes);
};

// The version both sides speak; kVersionMismatch names both ranges.
Result<std::uint16_t> choose_version(const WireVersions& ours, const WireVersions& theirs);

// What both hellos and the token come to. `connecting` is the HELLO's side.
struct Transcript {
  Transcript(const Hello& connecting, const Hello& accepting, std::string_view token);

  core::Digest accepting_proof;
  core::Digest connecting_proof;
  core::Digest secret;  // for the fabric's own connection; never on the wire
};

}  // namespace farwrite::device
