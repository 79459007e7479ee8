#include "device/channel_records.h"

#include <utility>

#include "core/wire.h"

namespace farwrite::device {
namespace {

constexpr std::string_view kReadRecord = "read a channel record";
constexpr std::size_t kTypeBytes = 8;

enum class RecordType : std::uint16_t { kLend = 1, kReturn = 2 };

void write_type(core::WireWriter& writer, RecordType type) {
  writer.u16(static_cast<std::uint16_t>(type));
  writer.u16(0);
  writer.u32(0);
}

bool type_is(core::WireReader& reader, RecordType type) {
  const bool right = reader.u16() == static_cast<std::uint16_t>(type);
  (void)reader.bytes(kTypeBytes - sizeof(std::uint16_t));  // for later versions
  return right;
}

Status malformed(std::string_view cause) {
  return Status::error(StatusCode::kProtocolError, {kReadRecord}, cause, core::kBrokenRule);
}

// Reuses the buffer's memory.
void write_into(std::vector<std::byte>& record, const core::WireWriter& header, ByteView rest) {
  record.assign(header.buffer().begin(), header.buffer().end());
  if (rest.size > 0) record.insert(record.end(), rest.data, rest.data + rest.size);
}

}  // namespace

void LendRecord::write(ByteView message, std::vector<std::byte>& record) const {
  core::WireWriter writer;
  write_type(writer, RecordType::kLend);
  writer.u64(lease);
  writer.u64(key);
  writer.u64(offset);
  writer.u64(length);
  write_into(record, writer, message);
}

Result<LendRecord> LendRecord::from_bytes(ByteView record) {
  core::WireReader reader(record);
  const bool known = type_is(reader, RecordType::kLend);
  LendRecord lend;
  lend.lease = reader.u64();
  lend.key = reader.u64();
  lend.offset = reader.u64();
  lend.length = reader.u64();
  FARWRITE_RETURN_IF_ERROR(reader.finish(kReadRecord, core::TailBytes::kAllowed));
  if (!known) return malformed("a record of unknown type in a lane for notifications");
  if (lend.lease == 0) return malformed("the peer lends memory without a lease");
  return lend;
}

void ReturnRecord::write(std::vector<std::byte>& record) const {
  core::WireWriter writer;
  write_type(writer, RecordType::kReturn);
  for (const std::uint64_t lease : leases) writer.u64(lease);
  write_into(record, writer, {});
}

Result<ReturnRecord> ReturnRecord::from_bytes(ByteView record) {
  core::WireReader reader(record);
  const bool known = type_is(reader, RecordType::kReturn);
  ReturnRecord result;
  const std::size_t count = reader.remaining() / sizeof(std::uint64_t);
  if (count > kMaxLeases) return malformed("the peer returns too many leases in one record");
  result.leases.reserve(count);
  for (std::size_t i = 0; i < count; ++i) result.leases.push_back(reader.u64());
  FARWRITE_RETURN_IF_ERROR(reader.finish(kReadRecord));
  if (!known || count == 0) return malformed("an empty record in the return lane");
  return result;
}

}  // namespace farwrite::device
