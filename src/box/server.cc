#include <algorithm>
#include <utility>

#include "box/box.h"
#include "box/server_state.h"
#include "core/left_to_parent.h"

namespace farwrite::box {

Result<Server> Server::serve(const ServerOptions& options) {
  Result<std::shared_ptr<ServerState>> state = ServerState::serve(options);
  if (!state.ok()) return state.status();
  return Server(core::left_to_parent(*std::move(state)));
}

Endpoint Server::endpoint() const { return state_->device().endpoint(); }

Result<Draft> Server::draft(std::uint64_t key) {
  FARWRITE_RETURN_IF_ERROR(state_->fork_guard().check("draft a segment"));
  return state_->draft(key);
}

Result<std::uint64_t> Server::commit(const Draft& draft, bool new_epoch, std::uint64_t fence) {
  FARWRITE_RETURN_IF_ERROR(state_->fork_guard().check("commit a draft"));
  const Result<HostedSegment::ChangeResult> result = state_->commit(draft, new_epoch, fence);
  if (!result.ok()) return result.status();
  return result.value().id.version;
}

void Server::drop(const Draft& draft) {
  if (state_->fork_guard().in_forked_child()) return;
  state_->drop(draft);
}

Status Server::snapshot() { return state_->snapshot(); }
ServerStats Server::stats() const { return state_->stats(); }
std::string Server::metrics_text() const { return state_->metrics_text(); }
Status Server::close(std::chrono::nanoseconds timeout, bool last_snapshot) {
  return state_->close(timeout, last_snapshot);
}

}  // namespace farwrite::box
