// Transfer records: what the two ends of a channel's edges tell each other, as channel messages.
//
// A tag's top byte says what a notification is: 0xf0, a landing in the slot that the low 24 bits
// name; 0xf1, a record whose type the low bits name. All records of an edge travel in the edge's
// lane, so they keep their order among each other and with the pushes. An edge's number is its
// receiver's. The bytes are in docs/reference/protocol.md, "Transfer records". Nothing here is
// trusted: every count and length is checked before anything is made of it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/wire.h"
#include "farwrite/bytes.h"
#include "farwrite/region.h"
#include "farwrite/status.h"
#include "farwrite/tensor.h"
#include "transfer/static_slot.h"

namespace farwrite::transfer {

inline constexpr std::uint32_t kTagKindMask = 0xff000000;
inline constexpr std::uint32_t kLandingTag = 0xf0000000;
inline constexpr std::uint32_t kRecordTag = 0xf1000000;
inline constexpr std::uint32_t kMaxSlotNumber = 0x00ffffff;

enum class RecordType : std::uint8_t {
  kEdge = 1,    // receiver: this edge is here
  kSlots = 2,   // receiver: some of its slots, granted
  kGrant = 3,   // receiver: slots that are free again
  kReset = 4,   // receiver: abort
  kOffer = 5,   // sender: a tensor to look at or read
  kClosed = 6,  // either: the edge is over
};

constexpr std::uint32_t tag_of(RecordType type) {
  return kRecordTag | static_cast<std::uint32_t>(type);
}

struct EdgeRecord {
  std::uint32_t edge = 0;
  EdgeKind kind = EdgeKind::kDynamic;
  bool tail_flag = false;
  std::uint32_t lane = 0;
  std::uint32_t slots = 0;      // as many follow in kSlots records
  std::uint64_t max_bytes = 0;  // capacity of each
  std::string name;
  TensorSpec spec;

  std::vector<std::byte> encode() const;
  static Result<EdgeRecord> decode(ByteView bytes);
};

struct SlotsRecord {
  struct Entry {
    SlotCredits::Credit credit;
    RegionDescriptor descriptor;
  };
  std::uint32_t edge = 0;
  std::vector<Entry> entries;

  // As many records as it takes to keep each within `max_bytes`.
  static std::vector<std::vector<std::byte>> encode(std::uint32_t edge,
                                                    const std::vector<Entry>& entries,
                                                    std::uint64_t max_bytes);
  static Result<SlotsRecord> decode(ByteView bytes);
};

// kGrant and kReset.
struct CreditsRecord {
  static constexpr std::size_t kMaxEntries = 128;  // more go into another record

  std::uint32_t edge = 0;
  std::uint32_t round = 0;  // how often the receiver has aborted
  std::vector<SlotCredits::Credit> credits;

  std::vector<std::byte> encode() const;
  static Result<CreditsRecord> decode(ByteView bytes);
};

struct ClosedRecord {
  std::uint32_t edge = 0;
  bool by_receiver = false;
  std::uint64_t sequence = 0;  // by the sender: of its last tensor

  std::vector<std::byte> encode() const;
  static Result<ClosedRecord> decode(ByteView bytes);
};

// kProtocolError: "read a transfer record: <cause>".
Status malformed_record(std::string_view cause);

// A spec inside a record: u32 item bytes, string dtype, u8 rank, u64 dims.
void write_spec(core::WireWriter& writer, const TensorSpec& spec);
TensorSpec read_spec(core::WireReader& reader);

}  // namespace farwrite::transfer
