// How the two sides of a link make one connection for each lane, after the handshake.
//
//   connecting side                               accepting side
//   JOIN   {lane, lanes, proof}  --------------->
//                                <---------------  JOINED {lane, proof}
//
// The proofs are HMACs under the secret of the authenticated handshake: they lead a connection to
// its handshake, and tell the connecting side that it has come to the right process.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/sha256.h"
#include "farwrite/bytes.h"
#include "farwrite/status.h"

namespace farwrite::fabric::tcp {

using Secret = std::array<std::byte, 32>;

struct JoinMessage {
  static constexpr std::size_t kBytes = 44;

  std::uint16_t lane = 0;
  std::uint32_t lanes = 1;
  core::Digest proof{};

  static JoinMessage of(const Secret& secret, std::uint16_t lane, std::uint32_t lanes);
  template <typename Wire>
  void fields(Wire& wire);
  std::array<std::byte, kBytes> to_bytes() const;
  // kProtocolError for what is no JOIN of this version. The proof is for the caller to compare.
  static Result<JoinMessage> from_bytes(ByteView bytes);
};

struct JoinedMessage {
  static constexpr std::size_t kBytes = 40;

  std::uint16_t lane = 0;
  core::Digest proof{};

  static JoinedMessage of(const Secret& secret, std::uint16_t lane);
  template <typename Wire>
  void fields(Wire& wire);
  std::array<std::byte, kBytes> to_bytes() const;
  static Result<JoinedMessage> from_bytes(ByteView bytes);
};

}  // namespace farwrite::fabric::tcp
