// What the two ends of an edge tell each other: records in messages, and the heads of slots.
#include <algorithm>
#include <array>
#include <utility>

#include "core/wire.h"
#include "target.h"
#include "transfer/checksum.h"
#include "transfer/offer.h"
#include "transfer/records.h"
#include "transfer/slot_head.h"

namespace farwrite::fuzz {
namespace {

using transfer::AnnouncedSlot;
using transfer::ClosedRecord;
using transfer::EdgeRecord;
using transfer::GrantRecord;
using transfer::OfferRecord;
using transfer::PushDescription;
using transfer::ResetRecord;
using transfer::SlotHead;
using transfer::SlotListRecord;
using transfer::SlotsRecord;
using transfer::TakenRecord;

enum Kind : std::uint8_t {
  kEdge,
  kSlots,
  kGrant,
  kOffer,
  kClosed,
  kTaken,
  kHead,
  kReset,
  kSlotList,
  kPush,
  kKinds
};

// Records say encode() and decode() where expect_round_trip() asks for bytes.
template <typename Record>
struct Message {
  Record record;

  Bytes to_bytes() const { return record.encode(); }
  static Result<Message> from_bytes(ByteView bytes) {
    auto record = Record::decode(bytes);
    if (!record.ok()) return record.status();
    return Message{*std::move(record)};
  }
};

// A checksum keeps mistakes out, not adversaries: put the right one in.
void put_checksum(Bytes& bytes, std::size_t at) {
  if (bytes.size() < at + sizeof(std::uint64_t)) return;
  core::WireWriter writer;
  writer.u64(transfer::checksum({bytes.data(), at}));
  std::copy(writer.buffer().begin(), writer.buffer().end(),
            bytes.begin() + static_cast<std::ptrdiff_t>(at));
}

void run_edge(ByteView bytes) {
  expect_round_trip<Message<EdgeRecord>>(bytes);
  auto edge = EdgeRecord::decode(bytes);
  if (!edge.ok()) return;
  require(edge->slots <= kMaxSlots, "the slots of an edge are bounded");
  require(!edge->name.empty() && edge->name.size() <= kMaxNameBytes, "an edge has a bounded name");
  require(edge->spec.bytes().ok(), "the size of its tensors is a number");
}

void run_slots(ByteView bytes) {
  auto record = SlotsRecord::decode(bytes);
  if (!record.ok()) return require_refusal(record.status());
  require(!record->slots.empty() && record->slots.size() <= kMaxSlots, "slots are bounded");
  for (const AnnouncedSlot& slot : record->slots) {
    require(slot.credit.slot <= transfer::kMaxSlotNumber, "a slot's number fits a tag");
  }
  const auto encoded = SlotsRecord::encode(record->edge, record->slots, UINT64_MAX);
  require(encoded.size() == 1 && encoded[0].size() <= bytes.size, "one record stays one");
  auto again = SlotsRecord::decode(view_of(encoded[0]));
  require(again.ok() && again->slots.size() == record->slots.size(), "no slot is lost");
  require(SlotsRecord::encode(again->edge, again->slots, UINT64_MAX) == encoded,
          "decoding what we encoded changes nothing");
}

void run_offer(Bytes bytes) {
  if (bytes.size() >= sizeof(std::uint64_t)) {
    put_checksum(bytes, bytes.size() - sizeof(std::uint64_t));
  }
  expect_round_trip<Message<OfferRecord>>(view_of(bytes));
  auto offer = OfferRecord::decode(view_of(bytes));
  if (!offer.ok()) return;
  auto size = offer->spec.bytes();
  require(size.ok() && size.value() == offer->bytes, "an offer has the bytes of its shape");
  if (offer->bytes == 0 || offer->bytes > transfer::kMaxEagerBytes) return;
  Bytes eager = offer->encode();
  const std::size_t head = eager.size();
  eager.resize(head + offer->bytes, std::byte{5});
  auto again = OfferRecord::decode(view_of(eager));
  require(
      again.ok() && again->eager.data == eager.data() + head && again->eager.size == offer->bytes,
      "the bytes behind an offer are its tensor");
  eager.pop_back();
  require(eager.size() == head || !OfferRecord::decode(view_of(eager)).ok(),
          "an offer with a part of its tensor is refused");
}

void run_head(Bytes bytes) {
  bytes.resize(transfer::kSlotHeadBytes);
  // The right checksum, if the length of the description allows for one.
  const auto length = static_cast<std::size_t>(bytes[6]) | static_cast<std::size_t>(bytes[7]) << 8;
  if (length <= transfer::kMaxSlotDescriptionBytes) {
    core::WireWriter writer;
    writer.u64(transfer::checksum({bytes.data(), 32 + length}));
    std::copy(writer.buffer().begin(), writer.buffer().end(), bytes.end() - 8);
  }
  std::array<std::byte, transfer::kSlotHeadBytes> head{};
  std::copy(bytes.begin(), bytes.end(), head.begin());
  auto decoded = SlotHead::decode(head);
  if (!decoded.ok()) return require_refusal(decoded.status());
  require(decoded->description.size() <= transfer::kMaxSlotDescriptionBytes,
          "a description is bounded");
  auto again = SlotHead::decode(decoded->encode());
  require(again.ok() && again->encode() == decoded->encode(), "a head survives");
}

void run_push(ByteView bytes) {
  expect_round_trip<Message<PushDescription>>(bytes);
  auto push = PushDescription::decode(bytes);
  if (push.ok()) require(push->dims.size() <= kMaxDimensions, "a rank is bounded");
}

void run(ByteView input) {
  Script script(input);
  const std::uint8_t kind = script.u8() % kKinds;
  const ByteView bytes = script.rest();
  if (kind == kEdge) return run_edge(bytes);
  if (kind == kSlots) return run_slots(bytes);
  if (kind == kGrant) return expect_round_trip<Message<GrantRecord>>(bytes);
  if (kind == kReset) return expect_round_trip<Message<ResetRecord>>(bytes);
  if (kind == kSlotList) return expect_round_trip<Message<SlotListRecord>>(bytes);
  if (kind == kPush) return run_push(bytes);
  if (kind == kOffer) return run_offer(Bytes(bytes.data, bytes.data + bytes.size));
  if (kind == kClosed) return expect_round_trip<Message<ClosedRecord>>(bytes);
  if (kind == kTaken) return expect_round_trip<Message<TakenRecord>>(bytes);
  run_head(Bytes(bytes.data, bytes.data + bytes.size));
}

Bytes seed(Kind kind, const Bytes& bytes) {
  return concatenated({{static_cast<std::byte>(kind)}, bytes});
}

TensorSpec matrix() {
  TensorSpec spec;
  spec.dtype = "<f4";
  spec.item_bytes = 4;
  spec.dims = {2, 3};
  return spec;
}

EdgeRecord edge(EdgeKind kind) {
  EdgeRecord record;
  record.edge = 1;
  record.kind = kind;
  record.slots = kind == EdgeKind::kDynamic ? 0 : 2;
  record.max_bytes = kind == EdgeKind::kDynamic ? 0 : 24;
  record.name = "gradients";
  record.spec = matrix();
  return record;
}

Seeds seeds() {
  RegionDescriptor region;
  region.length = 280;
  region.access = Access::kWrite;
  region.keys = {{FabricKind::kShm, 3}};
  const std::vector<AnnouncedSlot> slots{{{0, 1}, 24, region}, {{1, 1}, 24, region}};
  const GrantRecord grant{{{0, 2}, {1, 2}}};
  OfferRecord offer;
  offer.edge = 1;
  offer.sequence = 5;
  offer.bytes = 24;
  offer.spec = matrix();
  SlotHead head;
  head.slot = 1;
  head.generation = 2;
  head.bytes = 24;
  head.description = PushDescription{5, {2, 3}}.encode();
  const auto head_bytes = head.encode();
  return {{"edge-static", seed(kEdge, edge(EdgeKind::kStatic).encode())},
          {"edge-bounded", seed(kEdge, edge(EdgeKind::kBounded).encode())},
          {"edge-dynamic", seed(kEdge, edge(EdgeKind::kDynamic).encode())},
          {"slots", seed(kSlots, SlotsRecord::encode("1", slots, UINT64_MAX).at(0))},
          {"grant", seed(kGrant, grant.encode())},
          {"reset", seed(kReset, ResetRecord{"1", 2, grant.credits}.encode())},
          {"slot-list", seed(kSlotList, SlotListRecord{{0, 1}}.encode())},
          {"push", seed(kPush, PushDescription{5, {2, 3}}.encode())},
          {"offer", seed(kOffer, offer.encode())},
          {"closed", seed(kClosed, ClosedRecord{1, true}.encode())},
          {"taken", seed(kTaken, TakenRecord{1, 5}.encode())},
          {"head", seed(kHead, Bytes(head_bytes.begin(), head_bytes.end()))}};
}

[[maybe_unused]] const bool kAdded = add_target({"transfer_records", run, seeds});

}  // namespace
}  // namespace farwrite::fuzz
