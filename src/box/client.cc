#include <utility>

#include "box/box.h"
#include "box/client_state.h"
#include "box/segment_state.h"
#include "farwrite/internal/late.h"

namespace farwrite::box {
namespace {

Status other_count(ClientState& client, std::size_t segments) {
  return Status::error(StatusCode::kProtocolError,
                       {.operation = "find a segment", .peer = client.channel().peer_name()},
                       "the answer describes " + std::to_string(segments) + " segments",
                       "run the same release on both sides");
}

Result<std::shared_ptr<SegmentState>> attached(const std::shared_ptr<ClientState>& client,
                                               const Result<ClientState::ReceivedReply>& answer) {
  if (!answer.ok()) return answer.status();
  Result<std::vector<SegmentInfo>> infos = client->infos(answer.value());
  if (!infos.ok() || infos->size() != 1) {
    client->give_back(answer.value());  // the server has attached it
    return infos.ok() ? other_count(*client, infos->size()) : infos.status();
  }
  return SegmentState::open(client, std::move(infos.value().front()), answer.value());
}

Result<Segment> segment_of(Result<std::shared_ptr<SegmentState>> state) {
  if (!state.ok()) return state.status();
  return Segment(*std::move(state));
}

}  // namespace

Result<Client> Client::connect(const Endpoint& server, const ClientOptions& options) {
  Result<std::shared_ptr<ClientState>> state = ClientState::connect(server, options);
  if (!state.ok()) return state.status();
  return Client(*std::move(state));
}

Result<Segment> Client::create(const SegmentSpec& spec, Creation creation) const {
  const Result<std::uint64_t> bytes = checked_bytes(spec);
  if (!bytes.ok()) return bytes.status();
  Request request = {.verb = Verb::kCreate, .spec = spec, .creation = creation};
  const auto opened = [&](const Result<ClientState::ReceivedReply>& answer) {
    Result<Segment> segment = segment_of(attached(state_, answer));
    // Nothing knows of a segment that this call has made and cannot open.
    if (answer.ok() && !segment.ok() && creation == Creation::kExclusive) {
      state_->discard(answer.value().reply.key);
    }
    return segment;
  };
  const ByteView description(spec.description.data(), spec.description.size());
  if (description.size <= inline_bytes(state_->channel().max_message_bytes())) {
    request.bytes.assign(description.data, description.data + description.size);
    return opened(state_->call(std::move(request)));
  }
  const Result<ClientState::Lendable> lendable = state_->lendable(description);
  if (!lendable.ok()) return lendable.status();
  return opened(state_->call(std::move(request), lendable.value()));
}

Result<Segment> Client::attach(std::string_view name, std::chrono::nanoseconds timeout) const {
  if (Status named = check_name("attach a segment", name); !named.ok()) return named;
  const core::Deadline deadline = core::Deadline::after(timeout);
  const bool may_wait = timeout > std::chrono::nanoseconds(0);
  const auto ask = [&](bool waits) {
    return state_->call(
        {.verb = Verb::kAttachName, .number = waits ? 1U : 0U, .name = std::string(name)},
        may_wait ? deadline.remaining() : state_->timeout());
  };
  // Without waiting first: its answer tells a missing segment from a server that does not answer.
  Result<ClientState::ReceivedReply> answer = ask(false);
  const bool missing = !answer.ok() && answer.status().code() == StatusCode::kNotFound;
  if (!missing || !may_wait) {
    return segment_of(attached(state_, answer));
  }
  answer = ask(true);
  if (!answer.ok() && answer.status().code() == StatusCode::kDeadlineExceeded) {
    return internal::late(
        {.operation = "attach a segment", .peer = server().endpoint.to_string()},
        state_->channel().peer_state(),
        "no process created or published '" + std::string(name) + "' in time",
        "start the process that does, check the name (list() returns those of the "
        "box), or allow more time");
  }
  return segment_of(attached(state_, answer));
}

Result<Segment> Client::attach(std::uint64_t key) const {
  return segment_of(attached(state_, state_->call({.verb = Verb::kAttachKey, .key = key})));
}

Result<std::vector<SegmentInfo>> Client::list() const {
  const Result<ClientState::ReceivedReply> answer = state_->call({.verb = Verb::kList});
  if (!answer.ok()) return answer.status();
  return state_->infos(answer.value());
}

Result<SegmentInfo> Client::describe(std::string_view name) const {
  if (Status named = check_name("describe a segment", name); !named.ok()) return named;
  const Result<ClientState::ReceivedReply> answer =
      state_->call({.verb = Verb::kDescribe, .name = std::string(name)});
  if (!answer.ok()) return answer.status();
  Result<std::vector<SegmentInfo>> infos = state_->infos(answer.value());
  if (!infos.ok()) return infos.status();
  if (infos->size() != 1) return other_count(*state_, infos->size());
  return std::move(infos.value().front());
}

Result<MemoryRegion> Client::allocate(std::uint64_t bytes) const {
  // Memory is this side's: it is available without a server.
  if (Status end = state_->check("allocate"); end.code() == StatusCode::kCancelled) return end;
  return state_->device().allocate(bytes);
}

const PeerInfo& Client::server() const { return state_->channel().peer(); }

ClientStats Client::stats() const {
  if (state_->fork_guard().in_forked_child()) return {};
  const ClientState::ClientCounters& counters = state_->counters();
  return {.reads = counters.reads.load(std::memory_order_relaxed),
          .read_retries = counters.read_retries.load(std::memory_order_relaxed),
          .leased_reads = counters.leased_reads.load(std::memory_order_relaxed),
          .changes = counters.changes.load(std::memory_order_relaxed),
          .staged_bytes = counters.staged_bytes.load(std::memory_order_relaxed),
          .leases = counters.leases.load(std::memory_order_relaxed)};
}

Status Client::close(std::chrono::nanoseconds timeout) { return state_->close(timeout); }

}  // namespace farwrite::box
