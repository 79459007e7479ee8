#include "fabric/simulated/connection.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace farwrite::fabric {
namespace {

// What a CPU stores and loads whole.
constexpr std::uint64_t kWordBytes = 8;

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
  const auto key = std::find_if(
      descriptor.keys.begin(), descriptor.keys.end(),
      [](const FabricKey& candidate) { return candidate.fabric == FabricKind::kSimulated; });
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

}  // namespace farwrite::fabric
