// How a connection ends: one side leaves, or one host dies.
#include <utility>

#include "fabric/simulated/connection.h"

namespace farwrite::fabric {

ErrorContext Connection::where(SideIndex side, std::string_view operation) const {
  return {operation, sides_[side].peer_name, "simulated"};
}

Status Connection::broken(SideIndex side, std::string_view operation) const {
  const Side& self = sides_[side];
  if (self.end_code == StatusCode::kOk) return Status();
  return Status::error(self.end_code, where(side, operation), self.end_cause,
                       "open a new channel to go on");
}

void Connection::ring_all() {
  for (SideIndex side : {0U, 1U}) {
    for (const auto& lane : sides_[side].lanes) {
      if (lane->ring()) ++sides_[other(side)].counters.doorbells;
    }
  }
}

std::shared_ptr<ObserverDoor> Connection::end(SideIndex side, Outcomes& outcomes) {
  Side& self = sides_[side];
  Side& peer = sides_[other(side)];
  const std::map<std::uint64_t, std::shared_ptr<Transfer>> live = self.live;
  std::erase_if(wire_, [&](const Packet& packet) {
    return packet.transfer->from != side || packet.transfer->completion != nullptr;
  });
  finish_all(side, StatusCode::kCancelled, "this side closed the channel", outcomes);
  // What the card had fetched goes on; a hole in a lane would hold the rest back for ever.
  for (const auto& [id, transfer] : live) {
    if (!transfer->over) {
      self.live.emplace(id, transfer);
    } else if (transfer->notifies() && peer.attached) {
      peer.lanes[transfer->lane]->arrive(transfer);
      release(other(side), transfer->lane);
    }
  }
  self.grants = KeyTable();
  if (peer.attached && peer.end_code == StatusCode::kOk) {
    finish_all(other(side), StatusCode::kUnavailable, "the peer closed the channel", outcomes);
  }
  return self.door;
}

void Connection::kill(const Host& host, Outcomes& outcomes) {
  wire_.clear();
  for (SideIndex side : {0U, 1U}) {
    Side& self = sides_[side];
    if (!self.attached) continue;
    for (const auto& lane : self.lanes) lane->drop_arrivals();
    if (self.host.get() == &host) {
      finish_all(side, StatusCode::kUnavailable, "this simulated host was killed", outcomes);
      continue;
    }
    if (self.end_code == StatusCode::kPeerDead) continue;
    finish_all(side, StatusCode::kPeerDead, "the peer's simulated host was killed", outcomes);
    outcomes.peer_died(self.door, broken(side, "watch"));
  }
  ring_all();
}

void Connection::finish_all(SideIndex side, StatusCode code, const std::string& cause,
                            Outcomes& outcomes) {
  Side& self = sides_[side];
  self.end_code = code;
  self.end_cause = cause;
  self.flushes.clear();
  for (const auto& [id, transfer] : std::exchange(self.live, {})) {
    // A fetched transfer belongs to the wire by now, and its poster has its outcome.
    if (transfer->completion == nullptr && code == StatusCode::kCancelled) continue;
    transfer->over = true;
    transfer->failure = broken(side, "finish an operation");
    outcomes.finish(std::exchange(transfer->completion, nullptr), transfer->failure);
  }
}

}  // namespace farwrite::fabric
