// What a client and a server send each other through their rings: a head, and then so many bytes.
#pragma once

#include <cstdint>
#include <type_traits>

namespace farwrite::bench {

enum class RpcKind : std::uint32_t {
  kRequest = 1,  // bytes: a RecvTensorRequest
  kCancel = 2,   // nobody waits for the reply of this request any more
  kReply = 3,    // bytes: a RecvTensorResponse, or the message of a status
};

// As it lies in memory: both ends run the same program on little-endian hosts.
struct RpcHead {
  std::uint64_t id = 0;     // of the request, and of its reply
  std::uint64_t bytes = 0;  // behind this head
  RpcKind kind = RpcKind::kRequest;
  std::int32_t status = 0;  // of a reply: an absl::StatusCode
};
static_assert(sizeof(RpcHead) == 24 && std::is_trivially_copyable_v<RpcHead>);

}  // namespace farwrite::bench
