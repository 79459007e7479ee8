#include "transfer/records.h"

namespace farwrite::transfer {
namespace {

struct CreditField {
  Credit& credit;

  template <typename Wire>
  void fields(Wire& wire) {
    wire(credit.slot, credit.generation);
  }
};

// u32 count, and as many.
struct CreditList {
  std::vector<Credit>& credits;
  std::size_t most;

  template <typename Wire>
  void fields(Wire& wire) {
    auto count = static_cast<std::uint32_t>(credits.size());
    wire(count);
    wire.require(count <= most, "too many credits");
    if constexpr (Wire::kReads) credits.resize(wire.ok() ? count : 0);
    for (Credit& credit : credits) wire(CreditField{credit});
  }
};

template <typename Record>
Result<Record> read(ByteView bytes) {
  return core::from_bytes<Record>(bytes, kReadRecord);
}

}  // namespace

Status malformed_record(std::string_view cause) {
  return Status::error(StatusCode::kProtocolError, {kReadRecord.operation}, cause,
                       kReadRecord.remedy);
}

template <typename Wire>
void EdgeRecord::fields(Wire& wire) {
  wire(edge, kind, tail_flag, core::Reserved<2>(), lane, slots, max_bytes,
       core::sized(name, kMaxNameBytes), SpecField{spec});
  wire.require(kind >= EdgeKind::kStatic && kind <= EdgeKind::kDynamic, "an edge of unknown kind");
  wire.require(!name.empty() && slots <= kMaxSlots && (kind == EdgeKind::kDynamic) == (slots == 0),
               "an edge without a name, or with an impossible number of slots");
  wire.require(!tail_flag || kind == EdgeKind::kStatic,
               "a tail flag where the place of a tail is not known");
  if constexpr (Wire::kReads) {
    if (!wire.ok()) return;
    const Result<std::uint64_t> size = spec.bytes();
    wire.require(size.ok() && max_bytes <= kMaxTensorBytes &&
                     (kind != EdgeKind::kStatic || size.value() == max_bytes),
                 "an edge whose slots do not fit its tensors");
  }
}

template <typename Wire>
void AnnouncedSlot::fields(Wire& wire) {
  wire(CreditField{credit}, capacity, core::enclosed(descriptor, RegionDescriptor::kMaxBytes));
  wire.require(credit.slot <= kMaxSlotNumber, "a slot without a number");
}

template <typename Wire>
void SlotsRecord::fields(Wire& wire) {
  constexpr std::string_view kImpossible = "an impossible number of slots";
  wire(core::sized(edge, kMaxEdgeKeyBytes),
       core::list<std::uint32_t>(slots, kMaxSlots, kImpossible));
  if constexpr (Wire::kReads) wire.require(!slots.empty(), kImpossible);
}

std::vector<std::vector<std::byte>> SlotsRecord::encode(std::string_view edge,
                                                        const std::vector<AnnouncedSlot>& slots,
                                                        std::uint64_t max_bytes) {
  std::vector<std::vector<std::byte>> records;
  SlotsRecord record;
  record.edge = edge;
  const std::size_t empty = core::to_bytes(record).size();
  std::size_t size = empty;
  const auto finish = [&] {
    if (!record.slots.empty()) records.push_back(core::to_bytes(record));
    record.slots.clear();
    size = empty;
  };
  for (const AnnouncedSlot& slot : slots) {
    const std::size_t bytes = core::to_bytes(slot).size();
    if (size + bytes > max_bytes) finish();
    record.slots.push_back(slot);
    size += bytes;
  }
  finish();
  return records;
}

template <typename Wire>
void GrantRecord::fields(Wire& wire) {
  wire(CreditList{credits, kMaxEntries});
}

template <typename Wire>
void ResetRecord::fields(Wire& wire) {
  wire(core::sized(edge, kMaxEdgeKeyBytes), round, CreditList{credits, kMaxEntries});
}

template <typename Wire>
void SlotListRecord::fields(Wire& wire) {
  wire(core::list<std::uint32_t>(slots, kMaxEntries, "too many slots"));
}

template <typename Wire>
void ClosedRecord::fields(Wire& wire) {
  enum class By : std::uint32_t { kSender = 0, kReceiver = 1, kAbandoning = 2 };
  By by = by_receiver ? By::kReceiver : abandoned ? By::kAbandoning : By::kSender;
  wire(edge, by, sequence);
  wire.require(by <= By::kAbandoning, "an edge closed by neither side");
  by_receiver = by == By::kReceiver;
  abandoned = by == By::kAbandoning;
}

template <typename Wire>
void TakenRecord::fields(Wire& wire) {
  wire(edge, sequence);
}

template <typename Wire>
void PushDescription::fields(Wire& wire) {
  wire(sequence, SpecField::dims(dims));
}

std::vector<std::byte> EdgeRecord::encode() const { return core::to_bytes(*this); }
std::vector<std::byte> GrantRecord::encode() const { return core::to_bytes(*this); }
std::vector<std::byte> ResetRecord::encode() const { return core::to_bytes(*this); }
std::vector<std::byte> SlotListRecord::encode() const { return core::to_bytes(*this); }
std::vector<std::byte> ClosedRecord::encode() const { return core::to_bytes(*this); }
std::vector<std::byte> TakenRecord::encode() const { return core::to_bytes(*this); }
std::vector<std::byte> PushDescription::encode() const { return core::to_bytes(*this); }

Result<EdgeRecord> EdgeRecord::decode(ByteView bytes) { return read<EdgeRecord>(bytes); }
Result<SlotsRecord> SlotsRecord::decode(ByteView bytes) { return read<SlotsRecord>(bytes); }
Result<GrantRecord> GrantRecord::decode(ByteView bytes) { return read<GrantRecord>(bytes); }
Result<ResetRecord> ResetRecord::decode(ByteView bytes) { return read<ResetRecord>(bytes); }
Result<SlotListRecord> SlotListRecord::decode(ByteView bytes) {
  return read<SlotListRecord>(bytes);
}
Result<ClosedRecord> ClosedRecord::decode(ByteView bytes) { return read<ClosedRecord>(bytes); }
Result<TakenRecord> TakenRecord::decode(ByteView bytes) { return read<TakenRecord>(bytes); }
Result<PushDescription> PushDescription::decode(ByteView bytes) {
  return read<PushDescription>(bytes);
}

}  // namespace farwrite::transfer
