#include "simulated/connection.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/channel_end.h"
#include "simulated/simulated_kind.h"
namespace farwrite::fabric {
namespace {

// What a CPU stores and loads whole.
constexpr std::uint64_t kWordBytes = 8;

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

Connection::Connection(const SimulatedOptions& options, std::uint64_t id, Trace& trace)
    : options_(options),
      id_(id),
      trace_(trace),
      random_(Random(options.seed ^ (id << 32)).next()) {}

Status Connection::attach(SideIndex side, std::shared_ptr<Host> host,
                          const AttachRequest& request) {
  Side& self = sides_[side];
  self.peer_name = request.peer_name;
  for (std::uint32_t i = 0; i < request.lanes; ++i) {
    core::UniqueFd doorbell(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!doorbell.valid()) {
      return Status::system_error(StatusCode::kResourceExhausted, where(side, "attach"),
                                  "no doorbell can be made", errno,
                                  "raise the limit of open files (ulimit -n)");
    }
    self.lanes.push_back(std::make_unique<LaneOrder>(std::move(doorbell)));
  }
  self.host = std::move(host);
  self.door = std::make_shared<ObserverDoor>();
  self.door->observer = request.observer;
  self.attached = true;
  return Status();
}

bool Connection::involves(const Host& host) const {
  return sides_[0].host.get() == &host || sides_[1].host.get() == &host;
}

std::uint64_t Connection::grant(SideIndex side, std::uint64_t key,
                                const std::shared_ptr<memory::Segment>& segment,
                                std::uint64_t offset, std::uint64_t length) {
  sides_[side].grants.add(key, segment, offset, length, Access::kWrite);
  return key;
}

Result<std::shared_ptr<RemoteWindow>> Connection::import(SideIndex side,
                                                         const RegionDescriptor& descriptor) {
  const Side& peer = sides_[other(side)];
  const ErrorContext context = where(side, "open");
  const auto key =
      std::find_if(descriptor.keys.begin(), descriptor.keys.end(),
                   [](const FabricKey& candidate) { return candidate.fabric == kSimulated; });
  if (key == descriptor.keys.end()) {
    return Status::error(StatusCode::kUnsupported, context,
                         "the descriptor carries no key for this fabric",
                         "take the descriptor from a region of this channel's peer");
  }
  const bool granted = peer.grants.holds(key->key);
  auto reach = (granted ? peer.grants : peer.host->exports)
                   .reach(key->key, descriptor.offset, descriptor.length,
                          granted ? Access::kWrite : Access::kRead, context);
  if (!reach.ok()) return reach.status();

  auto window = std::make_shared<SimulatedWindow>();
  window->length = descriptor.length;
  window->key = key->key;
  window->base = descriptor.offset;
  if (!granted) {
    window->mapped = reach->data;
    window->mapping = std::move(reach->segment);
  }
  return std::shared_ptr<RemoteWindow>(std::move(window));
}

Completion Connection::post(SideIndex side, std::uint32_t lane, const Operation& operation,
                            Outcomes& outcomes) {
  Side& self = sides_[side];
  if (Status ended = broken(side, name_of(operation)); !ended.ok()) {
    return Completion(std::move(ended));
  }
  const bool is_record = operation.kind == OperationKind::kRecord;
  if ((is_record || operation.kind == OperationKind::kMessage) &&
      operation.source.size > kSimulatedMaxMessageBytes + (is_record ? kRecordHeadroom : 0)) {
    return Completion(Status::error(
        StatusCode::kInvalidArgument, where(side, "send"),
        "a message of " + std::to_string(operation.source.size) + " bytes is too long",
        "send at most " + std::to_string(kSimulatedMaxMessageBytes) + " bytes, or write them"));
  }
  if (operation.kind == OperationKind::kWrite && operation.notify && !options_.has_immediate) {
    return Completion(Status::error(StatusCode::kUnsupported, where(side, "write"),
                                    "this fabric's writes carry no notification",
                                    "flush, and notify then"));
  }
  // Nothing leaves the wire before its end.
  if (operation.kind == OperationKind::kEnd) return Completion(Status());
  auto transfer = std::make_shared<Transfer>();
  transfer->id = ++last_transfer_;
  transfer->from = side;
  transfer->lane = lane;
  transfer->operation = operation;
  transfer->completion = std::make_shared<core::CompletionState>();
  if (operation.head.size > 0) join_head(*transfer);
  self.live.emplace(transfer->id, transfer);
  if (transfer->notifies()) {
    transfer->sequence = self.lanes[lane]->next_sequence();
    send(PacketKind::kNotification, transfer);
  }
  switch (operation.kind) {
    case OperationKind::kWrite:
      send_chunks(transfer, transfer->operation.source.size);
      break;
    case OperationKind::kRead:
      send_chunks(transfer, operation.destination.size);
      break;
    case OperationKind::kMessage:
    case OperationKind::kRecord:
      fetch(*transfer);
      break;
    case OperationKind::kFlush:
      send(PacketKind::kFlush, transfer);
      break;
    case OperationKind::kNotify:
    case OperationKind::kEnd:
      break;
  }
  // The card has room for all we can post, but the poller may sleep.
  if (self.lanes[lane]->ring()) ++self.counters.doorbells;

  Completion result{transfer->completion};
  const bool may_fetch =
      operation.kind != OperationKind::kRead && operation.kind != OperationKind::kFlush;
  if (may_fetch && random_.chance(options_.early_completion)) {
    if (random_.chance(0.5)) {
      send(PacketKind::kFetch, transfer);
    } else {
      fetch(*transfer);
      outcomes.finish(std::exchange(transfer->completion, nullptr), Status());
    }
  }
  return result;
}

void Connection::send_chunks(const std::shared_ptr<Transfer>& transfer, std::uint64_t length) {
  std::uint64_t offset = 0;
  do {  // once for an empty write, too: the target checks its key
    std::uint64_t chunk =
        std::min(length - offset,
                 random_.length_between(options_.min_chunk_bytes, options_.max_chunk_bytes));
    if (options_.whole_message_order && length - offset - chunk < kWordBytes) {
      chunk = length - offset;
    }
    wire_.push_back(Packet{PacketKind::kChunk, transfer, offset, chunk});
    ++transfer->chunks_left;
    offset += chunk;
  } while (offset < length);
}

void Connection::send(PacketKind kind, const std::shared_ptr<Transfer>& transfer) {
  wire_.push_back(Packet{kind, transfer, 0, 0});
}

// The head is the card's own copy; the pieces behind it are fetched with it.
void Connection::join_head(Transfer& transfer) {
  const ByteView head = transfer.operation.head;
  ByteView& source = transfer.operation.source;
  transfer.fetched.assign(head.data, head.data + head.size);
  transfer.fetched.insert(transfer.fetched.end(), source.data, source.data + source.size);
  source = ByteView(transfer.fetched.data(), transfer.fetched.size());
}

void Connection::fetch(Transfer& transfer) {
  ByteView& source = transfer.operation.source;
  if (source.size == 0 || source.data == transfer.fetched.data()) return;
  if (options_.lowering == Lowering::kUnfetchedSource &&
      transfer.operation.kind == OperationKind::kWrite) {
    return;
  }
  transfer.fetched.assign(source.data, source.data + source.size);
  source = ByteView(transfer.fetched.data(), transfer.fetched.size());
  ++sides_[transfer.from].counters.copies;
}

// What the wire does with a packet, and what a delivery means for its transfer.

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

// How a connection ends: one side leaves, or one host dies.

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
    transfer->failure = broken(side, core::kUseTheChannel);
    outcomes.finish(std::exchange(transfer->completion, nullptr), transfer->failure);
  }
}

}  // namespace farwrite::fabric
