#include "device/channel_records.h"

#include "core/fields.h"

namespace farwrite::device {
namespace {

enum class LeaseRecordType : std::uint16_t { kLend = 1, kReturn = 2 };

constexpr core::Reading reading(core::TailBytes tail) {
  return {.operation = "read a channel record", .tail = tail, .remedy = core::kBrokenRule};
}

// Appends to a buffer whose memory is used again.
struct Append {
  std::vector<std::byte>& record;

  void bytes(ByteView raw) { record.insert(record.end(), raw.data, raw.data + raw.size); }
};

}  // namespace

template <typename Wire>
void LendRecord::fields(Wire& wire) {
  wire(core::constant(LeaseRecordType::kLend,
                      "a record of unknown type in a lane for notifications"),
       core::Reserved<6>(), lease, key, offset, length);
  wire.require(lease != 0, "the peer lends memory without a lease");
}

template <typename Wire>
void ReturnRecord::fields(Wire& wire) {
  constexpr std::string_view kEmpty = "an empty record in the return lane";
  wire(core::constant(LeaseRecordType::kReturn, kEmpty), core::Reserved<6>());
  if constexpr (Wire::kReads) {
    const std::size_t count = wire.remaining() / sizeof(std::uint64_t);
    wire.require(count > 0, kEmpty);
    wire.require(count <= kMaxLeases, "the peer returns too many leases in one record");
    leases.resize(wire.ok() ? count : 0);
  }
  for (std::uint64_t& lease : leases) wire(lease);
}

void LendRecord::write(ByteView message, std::vector<std::byte>& record) const {
  record.clear();
  Append to{record};
  core::write(*this, to);
  if (message.size > 0) {
    record.insert(record.end(), message.data, message.data + message.size);
  }
}

Result<LendRecord> LendRecord::from_bytes(ByteView record) {
  return core::from_bytes<LendRecord>(record, reading(core::TailBytes::kAllowed));
}

void ReturnRecord::write(std::vector<std::byte>& record) const {
  record.clear();
  Append to{record};
  core::write(*this, to);
}

Result<ReturnRecord> ReturnRecord::from_bytes(ByteView record) {
  return core::from_bytes<ReturnRecord>(record, reading(core::TailBytes::kRejected));
}

}  // namespace farwrite::device
