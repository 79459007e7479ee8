// What the wire does with a packet, and what a delivery means for its transfer.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "fabric/simulated/connection.h"

namespace farwrite::fabric {
namespace {

// The last word is released, so that who sees it sees everything before it.
void copy_in_order(std::byte* to, const std::byte* from, std::uint64_t bytes) {
  std::uint64_t word = 0;
  const bool has_word =
      bytes >= sizeof(word) && reinterpret_cast<std::uintptr_t>(to + bytes) % sizeof(word) == 0;
  const std::uint64_t before = has_word ? bytes - sizeof(word) : bytes;
  std::memcpy(to, from, before);
  if (!has_word) return;
  std::memcpy(&word, from + before, sizeof(word));
  std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(to + before))
      .store(word, std::memory_order_release);
}

}  // namespace

bool Connection::deliverable() const {
  return paired() && !wire_.empty() && !sides_[0].host->partitioned && !sides_[1].host->partitioned;
}

void Connection::run(Outcomes& outcomes) {
  for (std::uint32_t i = 0; i < options_.deliveries_per_poll && deliverable(); ++i) step(outcomes);
}

void Connection::step(Outcomes& outcomes) {
  std::size_t chosen = random_.below(wire_.size());
  if (random_.chance(std::min(options_.delay, 0.9))) return;
  if (options_.whole_message_order) chosen = first_chunk_of_same(chosen);
  std::swap(wire_[chosen], wire_.back());
  const Packet packet = std::move(wire_.back());
  wire_.pop_back();
  if (packet.kind == PacketKind::kNotification && lose_or_double(packet)) return;
  deliver(packet, outcomes);
}

std::size_t Connection::first_chunk_of_same(std::size_t chosen) const {
  if (wire_[chosen].kind != PacketKind::kChunk) return chosen;
  for (std::size_t i = 0; i < wire_.size(); ++i) {
    const bool same =
        wire_[i].kind == PacketKind::kChunk && wire_[i].transfer == wire_[chosen].transfer;
    if (same && wire_[i].offset < wire_[chosen].offset) chosen = i;
  }
  return chosen;
}

bool Connection::lose_or_double(const Packet& packet) {
  if (random_.chance(std::min(options_.drop, 0.9))) {
    wire_.push_back(packet);  // lost, and sent again: it was never acknowledged
    return true;
  }
  if (random_.chance(std::min(options_.duplicate, 0.9))) wire_.push_back(packet);
  return false;
}

void Connection::deliver(const Packet& packet, Outcomes& outcomes) {
  trace_.add(id_ << 8 | static_cast<std::uint64_t>(packet.kind));
  trace_.add(packet.transfer->id);
  trace_.add(packet.offset);
  ++trace_.deliveries;
  switch (packet.kind) {
    case PacketKind::kChunk:
      land(packet, outcomes);
      break;
    case PacketKind::kFetch:
      if (packet.transfer->completion != nullptr) {
        fetch(*packet.transfer);
        outcomes.finish(std::exchange(packet.transfer->completion, nullptr), Status());
      }
      break;
    case PacketKind::kNotification:
      show(packet, outcomes);
      break;
    case PacketKind::kFlush:
      sides_[packet.transfer->from].flushes.push_back(packet.transfer);
      finish_flushes(packet.transfer->from, outcomes);
      break;
  }
}

void Connection::land(const Packet& packet, Outcomes& outcomes) {
  Transfer& transfer = *packet.transfer;
  if (transfer.failure.ok()) transfer.failure = copy_chunk(packet);
  const std::uint64_t total = transfer.operation.kind == OperationKind::kWrite
                                  ? transfer.operation.source.size
                                  : transfer.operation.destination.size;
  if (packet.offset + packet.length == total) transfer.tail_landed = true;
  if (--transfer.chunks_left == 0) {
    settle(transfer, outcomes);
  } else if (options_.lowering == Lowering::kTailFlag && transfer.notifies()) {
    release(other(transfer.from), transfer.lane);
  }
}

Status Connection::copy_chunk(const Packet& packet) {
  const Transfer& transfer = *packet.transfer;
  const Operation& operation = transfer.operation;
  const auto& window = static_cast<const SimulatedWindow&>(*operation.window);
  const Side& target = sides_[other(transfer.from)];
  const bool writes = operation.kind == OperationKind::kWrite;
  const KeyTable& keys = target.grants.holds(window.key) ? target.grants : target.host->exports;
  const auto reach =
      keys.reach(window.key, window.base + operation.offset + packet.offset, packet.length,
                 writes ? Access::kWrite : Access::kRead, where(transfer.from, name_of(operation)),
                 options_.lowering == Lowering::kLateBytes);
  if (!reach.ok()) return reach.status();
  if (packet.length == 0) return Status();
  const std::byte* from = writes ? operation.source.data + packet.offset : reach.value().data;
  std::byte* to = writes ? reach.value().data : operation.destination.data + packet.offset;
  if (writes && options_.whole_message_order) {
    copy_in_order(to, from, packet.length);
  } else {
    std::memcpy(to, from, packet.length);
  }
  return Status();
}

void Connection::show(const Packet& packet, Outcomes& outcomes) {
  const std::shared_ptr<Transfer>& transfer = packet.transfer;
  const SideIndex target = other(transfer->from);
  LaneOrder& lane = *sides_[target].lanes[transfer->lane];
  if (options_.lowering == Lowering::kUnsequenced) {
    if (transfer->operation.kind == OperationKind::kWrite && !transfer->over) {
      wire_.push_back(packet);
      return;
    }
    lane.release_unsequenced(*transfer);
    if (lane.ring()) ++sides_[transfer->from].counters.doorbells;
  } else {
    if (!lane.arrive(transfer)) return;
    release(target, transfer->lane);
  }
  if (transfer->operation.kind != OperationKind::kWrite) settle(*transfer, outcomes);
}

void Connection::settle(Transfer& transfer, Outcomes& outcomes) {
  Side& self = sides_[transfer.from];
  transfer.over = true;
  self.live.erase(transfer.id);  // the packet being delivered keeps the transfer
  if (transfer.operation.kind == OperationKind::kWrite) {
    ++self.counters.copies;
    if (!transfer.failure.ok()) self.lost_write = transfer.failure;
  }
  outcomes.finish(std::exchange(transfer.completion, nullptr), transfer.failure);
  if (transfer.operation.kind != OperationKind::kWrite) return;
  if (transfer.operation.notify) release(other(transfer.from), transfer.lane);
  finish_flushes(transfer.from, outcomes);
}

void Connection::finish_flushes(SideIndex side, Outcomes& outcomes) {
  Side& self = sides_[side];
  std::erase_if(self.flushes, [&](const std::shared_ptr<Transfer>& flush) {
    if (options_.lowering != Lowering::kEarlyFlush && writes_under_way_before(self, flush->id)) {
      return false;
    }
    flush->over = true;
    self.live.erase(flush->id);
    // Ok must mean visible, and a write that was local_complete has no other way to fail.
    outcomes.finish(std::exchange(flush->completion, nullptr),
                    std::exchange(self.lost_write, Status()));
    return true;
  });
}

bool Connection::writes_under_way_before(const Side& side, std::uint64_t id) const {
  for (const auto& [live_id, transfer] : side.live) {
    if (live_id > id) return false;
    if (transfer->operation.kind == OperationKind::kWrite) return true;
  }
  return false;
}

void Connection::release(SideIndex side, std::uint32_t lane) {
  LaneOrder& target = *sides_[side].lanes[lane];
  target.release(options_.lowering);
  if (target.has_ready() && target.ring()) ++sides_[other(side)].counters.doorbells;
}

}  // namespace farwrite::fabric
