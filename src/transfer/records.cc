#include "transfer/records.h"

#include <algorithm>
#include <utility>

namespace farwrite::transfer {
namespace {

constexpr std::string_view kOperation = "read a transfer record";

void write_credit(core::WireWriter& writer, const SlotCredits::Credit& credit) {
  writer.u32(credit.slot);
  writer.u64(credit.generation);
}

SlotCredits::Credit read_credit(core::WireReader& reader) {
  SlotCredits::Credit credit;
  credit.slot = reader.u32();
  credit.generation = reader.u64();
  return credit;
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

std::vector<std::vector<std::byte>> SlotsRecord::encode(std::uint32_t edge,
                                                        const std::vector<Entry>& entries,
                                                        std::uint64_t max_bytes) {
  std::vector<std::vector<std::byte>> records;
  core::WireWriter writer;
  std::uint32_t count = 0;
  const auto finish = [&] {
    if (count == 0) return;
    writer.patch_u32(4, count);
    records.push_back(writer.take());
    count = 0;
  };
  for (const Entry& entry : entries) {
    const std::vector<std::byte> descriptor = entry.descriptor.to_bytes();
    if (count > 0 && writer.size() + 16 + descriptor.size() > max_bytes) finish();
    if (count == 0) {
      writer.u32(edge);
      writer.u32(0);
    }
    write_credit(writer, entry.credit);
    writer.blob({descriptor.data(), descriptor.size()});
    ++count;
  }
  finish();
  return records;
}

Result<SlotsRecord> SlotsRecord::decode(ByteView bytes) {
  core::WireReader reader(bytes);
  SlotsRecord record;
  record.edge = reader.u32();
  const std::uint32_t count = reader.u32();
  if (!reader.ok() || count == 0 || count > kMaxSlots) {
    return malformed_record("an impossible number of slots");
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    Entry entry;
    entry.credit = read_credit(reader);
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

std::vector<std::byte> CreditsRecord::encode() const {
  core::WireWriter writer;
  writer.u32(edge);
  writer.u32(round);
  writer.u32(static_cast<std::uint32_t>(credits.size()));
  for (const SlotCredits::Credit& credit : credits) write_credit(writer, credit);
  return writer.take();
}

Result<CreditsRecord> CreditsRecord::decode(ByteView bytes) {
  core::WireReader reader(bytes);
  CreditsRecord record;
  record.edge = reader.u32();
  record.round = reader.u32();
  const std::uint32_t count = reader.u32();
  if (!reader.ok() || count > kMaxEntries) return malformed_record("too many credits");
  for (std::uint32_t i = 0; i < count; ++i) record.credits.push_back(read_credit(reader));
  FARWRITE_RETURN_IF_ERROR(reader.finish(kOperation));
  return record;
}

std::vector<std::byte> ClosedRecord::encode() const {
  core::WireWriter writer;
  writer.u32(edge);
  writer.u32(by_receiver ? 1 : 0);
  writer.u64(sequence);
  return writer.take();
}

Result<ClosedRecord> ClosedRecord::decode(ByteView bytes) {
  core::WireReader reader(bytes);
  ClosedRecord record;
  record.edge = reader.u32();
  const std::uint32_t by_receiver = reader.u32();
  record.sequence = reader.u64();
  FARWRITE_RETURN_IF_ERROR(reader.finish(kOperation));
  if (by_receiver > 1) return malformed_record("an edge closed by neither side");
  record.by_receiver = by_receiver == 1;
  return record;
}

}  // namespace farwrite::transfer
