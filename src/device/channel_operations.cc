#include "device/channel_operations.h"

#include "core/inside.h"

namespace farwrite::device {

void ChannelOperations::start(const std::weak_ptr<ChannelOperations>& self, const PeerInfo& peer,
                              const std::string& peer_name,
                              const fabric::Capabilities& capabilities) {
  peer_name_ = peer_name;
  maps_peer_memory_ = capabilities.maps_peer_memory;
  if (capabilities.has_immediate) return;
  const auto post = [self](std::uint32_t lane, const fabric::Operation& operation) {
    const std::shared_ptr<ChannelOperations> kept = self.lock();
    if (kept == nullptr) return Completion(Status(StatusCode::kCancelled, "the channel has ended"));
    return kept->post_lowered(lane, operation);
  };
  lowered_ = std::make_shared<fabric::NotifiedWrites>(peer.lanes + 1, to_string(peer.fabric),
                                                      peer_name, post);
}

Completion ChannelOperations::post_lowered(std::uint32_t lane, const fabric::Operation& operation) {
  const core::Gate::Pass pass(gate_);
  if (!pass) return Completion(life_.unusable(name_of(operation), peer_name_));
  const core::Inside inside(channel_);
  return post_to_link(lane, operation);
}

Completion ChannelOperations::post_to_link(std::uint32_t lane, const fabric::Operation& operation) {
  Completion completion = link_.get()->lane(lane).post(operation);
  if (completion.done()) return completion;
  // What is read from a peer that then closes normally still comes; its lane's end ends it.
  const bool reads = operation.kind == fabric::OperationKind::kRead;
  pending_.add(completion.state(), reads && !maps_peer_memory_
                                       ? PendingOperations::Kind::kAwaitedReads
                                       : PendingOperations::Kind::kUntilTheEnd);
  // The peer may have gone since the caller looked, and what was pending then been abandoned.
  // A read that is allowed now ends with its lane.
  if (life_.peer_over() && !reads && !may_still_end()) {
    pending_.abandon(life_.unusable(name_of(operation), peer_name_), /*reads_too=*/false);
  }
  lanes_.expect_progress(operation.kind, lane);
  return completion;
}

bool ChannelOperations::may_still_end() const {
  // Where memory is mapped, only our own polling ends operations, and it has come round by then.
  return life_.left_in_good_order() && !(maps_peer_memory_ && life_.drained());
}

std::string_view name_of(const fabric::Operation& operation) {
  switch (operation.kind) {
    case fabric::OperationKind::kWrite:
      return "write";
    case fabric::OperationKind::kRead:
      return "read";
    case fabric::OperationKind::kNotify:
      return "notify";
    case fabric::OperationKind::kMessage:
      return "send";
    case fabric::OperationKind::kFlush:
      return "flush";
    case fabric::OperationKind::kRecord:
      return "lend";
    case fabric::OperationKind::kEnd:
      return "close the channel";
  }
  return "post";
}

}  // namespace farwrite::device
