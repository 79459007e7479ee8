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
  const Result<std::shared_ptr<HostedSegment>> segment = state_->table().find(key);
  if (!segment.ok()) return segment.status();
  const Result<std::optional<std::uint32_t>> drafted = state_->draft(*segment.value());
  if (!drafted.ok()) return drafted.status();
  const std::optional<std::uint32_t>& buffer = drafted.value();
  if (!buffer.has_value()) {
    return Status::error(StatusCode::kResourceExhausted, {.operation = "draft a segment"},
                         "'" + segment.value()->spec().name +
                             "' has no free buffer: all are leased or being filled, or the "
                             "server's memory is full",
                         "release leases, create it with more buffers, or serve with more memory");
  }
  return Draft{.key = key, .buffer = *buffer, .bytes = segment.value()->draft_bytes(*buffer)};
}

Result<std::uint64_t> Server::commit(const Draft& draft, bool new_epoch, std::uint64_t fence) {
  FARWRITE_RETURN_IF_ERROR(state_->fork_guard().check("commit a draft"));
  const Result<std::shared_ptr<HostedSegment>> segment = state_->table().find(draft.key);
  if (!segment.ok()) return segment.status();
  const Result<HostedSegment::ChangeResult> result =
      state_->commit(*segment.value(), draft.buffer, new_epoch, fence);
  if (!result.ok()) return result.status();
  return result.value().id.version;
}

void Server::drop(const Draft& draft) {
  if (state_->fork_guard().in_forked_child()) return;
  // Nothing to give back to a segment that is gone.
  if (const auto segment = state_->table().find(draft.key); segment.ok()) {
    segment.value()->drop(draft.buffer);
  }
}

Status Server::snapshot() { return state_->snapshot(); }
ServerStats Server::stats() const { return state_->stats(); }
std::string Server::metrics_text() const { return state_->metrics_text(); }
Status Server::close(std::chrono::nanoseconds timeout, bool last_snapshot) {
  return state_->close(timeout, last_snapshot);
}

}  // namespace farwrite::box
