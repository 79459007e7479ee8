#include "peer_table.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace farwrite::experiments {
namespace {

constexpr char kVariable[] = "FARWRITE_RPC_OVER_FABRIC_PEERS";
constexpr char kRemedy[] =
    "set it in every task, for example to /job:ps/replica:0/task:0=127.0.0.1:7000,"
    "/job:worker/replica:0/task:0=127.0.0.1:7001";

Status refuse(StatusCode code, const std::string& cause) {
  return Status::error(code, {"open rpc-over-fabric"}, kVariable + cause, kRemedy);
}

}  // namespace

Result<PeerTable> PeerTable::from_environment() {
  const char* const value = std::getenv(kVariable);
  std::string_view rest = value == nullptr ? "" : value;
  if (rest.empty()) return refuse(StatusCode::kInvalidArgument, " is not set");
  PeerTable table;
  while (!rest.empty()) {
    const std::string_view entry = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(entry.size() + 1, rest.size()));
    const std::size_t sign = entry.rfind('=');
    if (sign == std::string_view::npos || sign == 0) {
      return refuse(StatusCode::kInvalidArgument,
                    " has the entry '" + std::string(entry) + "', which is no TASK=HOST:PORT");
    }
    Result<Endpoint> endpoint = Endpoint::parse(entry.substr(sign + 1));
    if (!endpoint.ok()) {
      return refuse(StatusCode::kInvalidArgument,
                    " has the entry '" + std::string(entry) + "': " + endpoint.status().message());
    }
    table.endpoints_[std::string(entry.substr(0, sign))] = *std::move(endpoint);
  }
  return table;
}

Result<Endpoint> PeerTable::find(const std::string& task) const {
  const auto found = endpoints_.find(task);
  if (found != endpoints_.end()) return found->second;
  return refuse(StatusCode::kNotFound, " does not name " + task);
}

}  // namespace farwrite::experiments
