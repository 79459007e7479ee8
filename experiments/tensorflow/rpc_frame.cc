#include "rpc_frame.h"

#include <string>

namespace farwrite::experiments {
namespace {

constexpr std::int32_t kLastStatus = 16;  // absl::StatusCode::kUnauthenticated

Status refuse(std::string_view operation, std::string_view peer, const std::string& cause) {
  return Status::error(StatusCode::kProtocolError, {operation, peer}, cause,
                       "run the same release in all tasks");
}

}  // namespace

Status RpcHead::check_from_client(std::string_view peer) const {
  constexpr std::string_view kOperation = "receive a request";
  if (kind != RpcKind::kRequest && kind != RpcKind::kCancel) {
    return refuse(kOperation, peer,
                  "the frame has the kind " + std::to_string(static_cast<std::uint32_t>(kind)));
  }
  const bool fits = kind == RpcKind::kCancel ? bytes == 0 : bytes > 0 && bytes <= kMostRequestBytes;
  if (fits && id > 0 && status == 0) return Status();
  return refuse(kOperation, peer,
                "the frame has " + std::to_string(bytes) + " bytes, the id " + std::to_string(id) +
                    " and the status " + std::to_string(status) + "; a request has 1 to " +
                    std::to_string(kMostRequestBytes) +
                    " bytes, its cancellation none, and both have an id and no status");
}

Status RpcHead::check_from_server(std::uint64_t last_id, std::string_view peer) const {
  constexpr std::string_view kOperation = "receive a reply";
  if (kind != RpcKind::kReply) {
    return refuse(kOperation, peer,
                  "the frame has the kind " + std::to_string(static_cast<std::uint32_t>(kind)));
  }
  if (id == 0 || id > last_id) {
    return refuse(kOperation, peer,
                  "it answers the request " + std::to_string(id) + " and the last one was " +
                      std::to_string(last_id));
  }
  if (status < 0 || status > kLastStatus) {
    return refuse(kOperation, peer, "it has the status " + std::to_string(status));
  }
  const bool fits =
      status == 0 ? bytes > 0 && bytes <= kMostReplyBytes : bytes <= kMostMessageBytes;
  if (fits) return Status();
  return refuse(kOperation, peer,
                "it has " + std::to_string(bytes) + " bytes and the status " +
                    std::to_string(status) + "; a tensor has 1 to " +
                    std::to_string(kMostReplyBytes) + " bytes, and a message at most " +
                    std::to_string(kMostMessageBytes));
}

}  // namespace farwrite::experiments
