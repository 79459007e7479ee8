// What a client and a server send each other through their rings: a head, and then so many bytes.
#pragma once

#include <climits>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "farwrite/status.h"

namespace farwrite::experiments {

enum class RpcKind : std::uint32_t {
  kRequest = 1,  // bytes: a RecvTensorRequest
  kCancel = 2,   // nothing waits for the reply of this request any more; no bytes
  kReply = 3,    // bytes: a RecvTensorResponse, or the message of a status
};

// As it lies in memory: both ends run the same program on little-endian hosts.
struct RpcHead {
  static constexpr std::uint64_t kMostRequestBytes = std::uint64_t{1} << 20;
  static constexpr std::uint64_t kMostMessageBytes = std::uint64_t{1} << 12;
  static constexpr std::uint64_t kMostReplyBytes = INT_MAX;  // protobuf reads no longer message

  std::uint64_t id = 0;     // of the request, and of its reply; from 1 on
  std::uint64_t bytes = 0;  // behind this head
  RpcKind kind = RpcKind::kRequest;
  std::int32_t status = 0;  // of a reply: an absl::StatusCode

  // kProtocolError unless a client may send this head to a server. `peer` is its name in messages.
  Status check_from_client(std::string_view peer) const;
  // kProtocolError unless a server may send this head to a client whose last request was `last_id`.
  Status check_from_server(std::uint64_t last_id, std::string_view peer) const;
};
static_assert(sizeof(RpcHead) == 24 && std::is_trivially_copyable_v<RpcHead>);

}  // namespace farwrite::experiments
