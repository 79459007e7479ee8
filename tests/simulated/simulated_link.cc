#include "simulated/simulated_link.h"

#include <deque>
#include <utility>

#include "core/mutex.h"

namespace farwrite::fabric {

Completion SimulatedLane::post(const Operation& operation) {
  Outcomes outcomes;
  core::Lock lock(world_->mutex());
  Completion completion = connection_->post(side_, index_, operation, outcomes);
  lock.unlock();
  outcomes.tell();
  return completion;
}

Progress SimulatedLane::poll(EventSink& sink) {
  Progress progress;
  LaneOrder& lane = connection_->lane(side_, index_);
  if (lane.polling.test_and_set(std::memory_order_acquire)) return progress;
  Outcomes outcomes;
  std::deque<ReceivedNotification> ready;
  {
    const core::Lock lock(world_->mutex());
    lane.silence();
    connection_->run(outcomes);
    ready = lane.take_ready();
    progress.pending = connection_->deliverable();
    progress.drained = !progress.pending;
  }
  outcomes.tell();
  progress.delivered = ready.size();
  for (ReceivedNotification& received : ready) std::move(received).deliver(sink);
  lane.polling.clear(std::memory_order_release);
  return progress;
}

Doorbell SimulatedLane::arm() {
  const core::Lock lock(world_->mutex());
  LaneOrder& lane = connection_->lane(side_, index_);
  lane.arm();
  return Doorbell{lane.doorbell(), lane.has_ready() || connection_->deliverable()};
}

SimulatedLink::SimulatedLink(std::shared_ptr<SimulatedWorld> world,
                             std::shared_ptr<Connection> connection, SideIndex side,
                             std::string peer_name)
    : world_(std::move(world)),
      connection_(std::move(connection)),
      side_(side),
      peer_name_(std::move(peer_name)) {
  const core::Lock lock(world_->mutex());
  for (std::uint32_t i = 0; i < connection_->lanes(side_); ++i) {
    lanes_.push_back(std::make_unique<SimulatedLane>(world_, connection_, side_, i));
  }
}

SimulatedLink::~SimulatedLink() {
  Outcomes outcomes;
  std::shared_ptr<ObserverDoor> door;
  {
    const core::Lock lock(world_->mutex());
    door = connection_->end(side_, outcomes);
  }
  door->gate.close();
  (void)door->gate.wait_until_empty(core::Deadline::never());
  outcomes.tell();
}

Result<std::uint64_t> SimulatedLink::grant(const std::shared_ptr<memory::Segment>& segment,
                                           std::uint64_t offset, std::uint64_t length,
                                           std::uint64_t /*region_id*/) {
  if (offset > segment->bytes() || length > segment->bytes() - offset) {
    return Status::error(StatusCode::kOutOfRange, where("grant"),
                         "the bytes leave their landing segment", "stay inside the segment");
  }
  const core::Lock lock(world_->mutex());
  return connection_->grant(side_, world_->new_key(), segment, offset, length);
}

Status SimulatedLink::revoke(std::uint64_t key, std::uint64_t /*region_id*/,
                             core::Deadline /*deadline*/) {
  const core::Lock lock(world_->mutex());
  connection_->revoke(side_, key);
  return Status();
}

Result<std::shared_ptr<RemoteWindow>> SimulatedLink::import(const RegionDescriptor& descriptor,
                                                            core::Deadline deadline) {
  core::Lock lock(world_->mutex());
  if (!world_->wait_until_paired(*connection_, deadline)) {
    return Status::error(StatusCode::kDeadlineExceeded, where("open"),
                         "the peer did not attach in time", "allow more time");
  }
  if (Status ended = connection_->broken(side_, "open"); !ended.ok()) return ended;
  return connection_->import(side_, descriptor);
}

LinkCounters SimulatedLink::counters() const {
  const core::Lock lock(world_->mutex());
  return connection_->counters(side_);
}

}  // namespace farwrite::fabric
