#include "transfer/records.h"

#include <algorithm>
#include <utility>

namespace farwrite::transfer {
namespace {

constexpr std::string_view kOperation = "read a transfer record";

void write_credit(core::WireWriter& writer, const Credit& credit) {
  writer.u32(credit.slot);
  writer.u64(credit.generation);
}

Credit read_credit(core::WireReader& reader) {
  Credit credit;
  credit.slot = reader.u32();
  credit.generation = reader.u64();
  return credit;
}

void write_credits(core::WireWriter& writer, const std::vector<Credit>& credits) {
  writer.u32(static_cast<std::uint32_t>(credits.size()));
  for (const Credit& credit : credits) write_credit(writer, credit);
}

// The last field of its record.
Status read_credits(core::WireReader& reader, std::size_t most, std::vector<Credit>& credits) {
  const std::uint32_t count = reader.u32();
  if (!reader.ok() || count > most) return malformed_record("too many credits");
  for (std::uint32_t i = 0; i < count; ++i) credits.push_back(read_credit(reader));
  return reader.finish(kOperation);
}

}  // namespace

Status malformed_record(std::string_view cause) {
  return Status::error(StatusCode::kProtocolError, {kOperation}, cause,
                       "run the same Farwrite release on both sides, and send no other "
                       "notifications on this channel");
}

void write_spec(core::WireWriter& writer, const TensorSpec& spec) {
  writer.u32(spec.item_bytes);
  writer.string(spec.dtype);
  writer.u8(static_cast<std::uint8_t>(spec.dims.size()));
  for (const std::uint64_t dim : spec.dims) writer.u64(dim);
}

TensorSpec read_spec(core::WireReader& reader) {
  TensorSpec spec;
  spec.item_bytes = reader.u32();
  spec.dtype = reader.string(kMaxDtypeBytes);
  const std::uint8_t rank = reader.u8();
  // A rank that is too large stays so, for the caller to refuse; there is nothing to read it from.
  if (rank > kMaxDimensions) {
    spec.dims.resize(kMaxDimensions + 1);
    return spec;
  }
  for (std::uint8_t i = 0; i < rank && reader.ok(); ++i) spec.dims.push_back(reader.u64());
  return spec;
}

std::vector<std::byte> EdgeRecord::encode() const {
  core::WireWriter writer;
  writer.u32(edge);
  writer.u8(static_cast<std::uint8_t>(kind));
  writer.u8(tail_flag ? 1 : 0);
  writer.u16(0);
  writer.u32(lane);
  writer.u32(slots);
  writer.u64(max_bytes);
  writer.string(name);
  write_spec(writer, spec);
  return writer.take();
}

Result<EdgeRecord> EdgeRecord::decode(ByteView bytes) {
  core::WireReader reader(bytes);
  EdgeRecord record;
  record.edge = reader.u32();
  const std::uint8_t kind = reader.u8();
  const std::uint8_t tail_flag = reader.u8();
  (void)reader.u16();
  record.lane = reader.u32();
  record.slots = reader.u32();
  record.max_bytes = reader.u64();
  record.name = reader.string(kMaxNameBytes);
  record.spec = read_spec(reader);
  if (record.spec.dims.size() > kMaxDimensions) return malformed_record("a rank is too large");
  FARWRITE_RETURN_IF_ERROR(reader.finish(kOperation));
  if (kind < 1 || kind > 3 || tail_flag > 1) return malformed_record("an edge of unknown kind");
  record.kind = static_cast<EdgeKind>(kind);
  record.tail_flag = tail_flag == 1;
  if (record.name.empty() || record.slots > kMaxSlots ||
      (record.kind == EdgeKind::kDynamic) != (record.slots == 0)) {
    return malformed_record("an edge without a name, or with an impossible number of slots");
  }
  if (record.tail_flag && record.kind != EdgeKind::kStatic) {
    return malformed_record("a tail flag where the place of a tail is not known");
  }
  Result<std::uint64_t> size = record.spec.bytes();
  if (!size.ok() || record.max_bytes > kMaxTensorBytes ||
      (record.kind == EdgeKind::kStatic && *size != record.max_bytes)) {
    return malformed_record("an edge whose slots do not fit its tensors");
  }
  return record;
}

std::vector<std::vector<std::byte>> SlotsRecord::encode(std::string_view edge,
                                                        const std::vector<Entry>& entries,
                                                        std::uint64_t max_bytes) {
  constexpr std::size_t kEntryBytes = 4 + 8 + 8 + 4;  // beside the descriptor
  std::vector<std::vector<std::byte>> records;
  core::WireWriter writer;
  std::uint32_t count = 0;
  std::size_t count_at = 0;
  const auto finish = [&] {
    if (count == 0) return;
    writer.patch_u32(count_at, count);
    records.push_back(writer.take());
    count = 0;
  };
  for (const Entry& entry : entries) {
    const std::vector<std::byte> descriptor = entry.descriptor.to_bytes();
    if (count > 0 && writer.size() + kEntryBytes + descriptor.size() > max_bytes) finish();
    if (count == 0) {
      writer.string(edge);
      count_at = writer.size();
      writer.u32(0);
    }
    write_credit(writer, entry.credit);
    writer.u64(entry.capacity);
    writer.blob({descriptor.data(), descriptor.size()});
    ++count;
  }
  finish();
  return records;
}

Result<SlotsRecord> SlotsRecord::decode(ByteView bytes) {
  core::WireReader reader(bytes);
  SlotsRecord record;
  record.edge = reader.string(kMaxEdgeKeyBytes);
  const std::uint32_t count = reader.u32();
  if (!reader.ok() || count == 0 || count > kMaxSlots) {
    return malformed_record("an impossible number of slots");
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    Entry entry;
    entry.credit = read_credit(reader);
    entry.capacity = reader.u64();
    const ByteView descriptor = reader.blob(RegionDescriptor::kMaxBytes);
    if (!reader.ok()) break;
    Result<RegionDescriptor> decoded = RegionDescriptor::from_bytes(descriptor);
    if (!decoded.ok()) return decoded.status();
    if (entry.credit.slot > kMaxSlotNumber) return malformed_record("a slot without a number");
    entry.descriptor = *std::move(decoded);
    record.entries.push_back(std::move(entry));
  }
  FARWRITE_RETURN_IF_ERROR(reader.finish(kOperation));
  return record;
}

std::vector<std::byte> GrantRecord::encode() const {
  core::WireWriter writer;
  write_credits(writer, credits);
  return writer.take();
}

Result<GrantRecord> GrantRecord::decode(ByteView bytes) {
  core::WireReader reader(bytes);
  GrantRecord record;
  FARWRITE_RETURN_IF_ERROR(read_credits(reader, kMaxEntries, record.credits));
  return record;
}

std::vector<std::byte> ResetRecord::encode() const {
  core::WireWriter writer;
  writer.string(edge);
  writer.u32(round);
  write_credits(writer, credits);
  return writer.take();
}

Result<ResetRecord> ResetRecord::decode(ByteView bytes) {
  core::WireReader reader(bytes);
  ResetRecord record;
  record.edge = reader.string(kMaxEdgeKeyBytes);
  record.round = reader.u32();
  FARWRITE_RETURN_IF_ERROR(read_credits(reader, kMaxEntries, record.credits));
  return record;
}

std::vector<std::byte> SlotListRecord::encode() const {
  core::WireWriter writer;
  writer.u32(static_cast<std::uint32_t>(slots.size()));
  for (const std::uint32_t slot : slots) writer.u32(slot);
  return writer.take();
}

Result<SlotListRecord> SlotListRecord::decode(ByteView bytes) {
  core::WireReader reader(bytes);
  SlotListRecord record;
  const std::uint32_t count = reader.u32();
  if (!reader.ok() || count > kMaxEntries) return malformed_record("too many slots");
  for (std::uint32_t i = 0; i < count; ++i) record.slots.push_back(reader.u32());
  FARWRITE_RETURN_IF_ERROR(reader.finish(kOperation));
  return record;
}

std::vector<std::byte> ClosedRecord::encode() const {
  core::WireWriter writer;
  writer.u32(edge);
  writer.u32(by_receiver ? 1 : abandoned ? 2 : 0);
  writer.u64(sequence);
  return writer.take();
}

Result<ClosedRecord> ClosedRecord::decode(ByteView bytes) {
  core::WireReader reader(bytes);
  ClosedRecord record;
  record.edge = reader.u32();
  const std::uint32_t by = reader.u32();
  record.sequence = reader.u64();
  FARWRITE_RETURN_IF_ERROR(reader.finish(kOperation));
  if (by > 2) return malformed_record("an edge closed by neither side");
  record.by_receiver = by == 1;
  record.abandoned = by == 2;
  return record;
}

std::vector<std::byte> TakenRecord::encode() const {
  core::WireWriter writer;
  writer.u32(edge);
  writer.u64(sequence);
  return writer.take();
}

Result<TakenRecord> TakenRecord::decode(ByteView bytes) {
  core::WireReader reader(bytes);
  TakenRecord record;
  record.edge = reader.u32();
  record.sequence = reader.u64();
  FARWRITE_RETURN_IF_ERROR(reader.finish(kOperation));
  return record;
}

std::vector<std::byte> PushDescription::encode() const {
  core::WireWriter writer;
  writer.u64(sequence);
  writer.u8(static_cast<std::uint8_t>(dims.size()));
  for (const std::uint64_t dim : dims) writer.u64(dim);
  return writer.take();
}

Result<PushDescription> PushDescription::decode(ByteView bytes) {
  core::WireReader reader(bytes);
  PushDescription push;
  push.sequence = reader.u64();
  const std::uint8_t rank = reader.u8();
  if (rank > kMaxDimensions) return malformed_record("a rank is too large");
  for (std::uint8_t i = 0; i < rank; ++i) push.dims.push_back(reader.u64());
  FARWRITE_RETURN_IF_ERROR(reader.finish(kOperation));
  return push;
}

}  // namespace farwrite::transfer
