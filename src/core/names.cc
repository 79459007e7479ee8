// The words for the public enumerations, in one place: logs, errors and tests rely on them.
#include "farwrite/channel.h"
#include "farwrite/options.h"

namespace farwrite {

std::string_view to_string(FabricKind kind) {
  switch (kind) {
    case FabricKind::kShm:
      return "shm";
    case FabricKind::kTcp:
      return "tcp";
    case FabricKind::kVerbs:
      return "verbs";
  }
  return "unknown fabric";
}

Result<FabricKind> parse_fabric(std::string_view name) {
  for (const FabricKind kind : {FabricKind::kShm, FabricKind::kTcp, FabricKind::kVerbs}) {
    if (name == to_string(kind)) return kind;
  }
  return Status::error(StatusCode::kInvalidArgument, {"choose a fabric"},
                       "\"" + std::string(name) + "\" is not a fabric",
                       "use one of shm, tcp, verbs");
}

std::string_view to_string(PeerState state) {
  switch (state) {
    case PeerState::kAlive:
      return "alive";
    case PeerState::kSilent:
      return "silent";
    case PeerState::kClosed:
      return "closed";
    case PeerState::kDead:
      return "dead";
  }
  return "unknown peer state";
}

}  // namespace farwrite
