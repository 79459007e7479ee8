#include "box/held_lease.h"

#include <utility>

#include "memory/copy.h"

namespace farwrite::box {

Result<std::shared_ptr<HeldLease>> HeldLease::take(const std::shared_ptr<SegmentState>& segment,
                                                   std::chrono::nanoseconds timeout) {
  const core::Deadline deadline = core::Deadline::after(timeout);
  const std::shared_ptr<ClientState>& client = segment->client();
  Result<std::shared_ptr<const void>> view = client->begin_view();
  if (!view.ok()) return view.status();
  const Result<ClientState::ReceivedReply> answer =
      client->await(Verb::kLease, timeout, [&](ClientState::OnAnswer on_answer) {
        return segment->post({.verb = Verb::kLease}, std::move(on_answer));
      });
  if (!answer.ok()) return answer.status();
  // Not make_shared: the constructor is private.
  std::shared_ptr<HeldLease> held(new HeldLease(segment, *std::move(view), answer.value()));
  if (!held->region_.valid() || held->region_.size() < segment->info().bytes) {
    return Status::error(StatusCode::kProtocolError, segment->context("lease a segment"),
                         "the server lent fewer bytes than the segment has",
                         "run the same release on both sides");
  }
  if (client->channel().maps_peer_memory()) {
    Result<Alias> alias = client->channel().alias(held->region_, 0, held->region_.size(),
                                                  client->answer_by(deadline).remaining());
    if (!alias.ok()) return alias.status();
    held->alias_ = *std::move(alias);
  }
  return held;
}

HeldLease::~HeldLease() {
  // Ahead of the region's return, which no change of this client follows in order.
  if (memory::ForkedReaders::may_read(made_)) return;
  segment_->client()->tell({.verb = Verb::kRelease, .number = lease_});
}

Status HeldLease::read(MutableByteView out, std::uint64_t offset, const core::Deadline& deadline,
                       const std::shared_ptr<const void>& owner) const {
  if (mapped() == nullptr) return segment_->fetch(out, region_, offset, deadline, owner);
  copy_bytes(out.data, mapped() + offset, out.size);
  return Status();
}

}  // namespace farwrite::box
