// Transfer records: what the two ends of a channel's edges send each other, as channel messages.
//
// The top byte of a tag says what a notification is: 0xf0, a landing in the slot that the low 24
// bits name; 0xf1, a record, whose type is in the low bits; 0xf2, a message of the engine's user.
// The engine reads the records about slots. Those about named edges belong to TensorSender and
// TensorReceiver (port.h). The bytes are in docs/reference/protocol.md, "Transfer records". Nothing
// here is trusted: every count and length is checked before anything is made of it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/fields.h"
#include "core/region.h"
#include "farwrite/bytes.h"
#include "farwrite/status.h"
#include "transfer/slot.h"
#include "transfer/tensor.h"

namespace farwrite::transfer {

inline constexpr std::uint32_t kTagKindMask = 0xff000000;
inline constexpr std::uint32_t kLandingTag = 0xf0000000;
inline constexpr std::uint32_t kRecordTag = 0xf1000000;
inline constexpr std::uint32_t kMessageTag = 0xf2000000;
inline constexpr std::uint32_t kMaxSlotNumber = 0x00ffffff;
// TensorFlow names edges by their nodes, and scopes make such names long.
inline constexpr std::size_t kMaxEdgeKeyBytes = 16384;
// So many tensors may travel in their offers that the receiver is not known to have taken: what
// they take of its memory is bounded so. It reports at least as often.
inline constexpr std::uint64_t kMaxEagerAhead = 1024;
inline constexpr std::uint64_t kReportAtLeastEvery = kMaxEagerAhead / 4;

enum class RecordType : std::uint8_t {
  kEdge = 1,      // named edges: the receiver's, this edge is here
  kSlots = 2,     // receiver: slots of an edge, granted
  kGrant = 3,     // receiver: slots that are free again
  kReset = 4,     // receiver: abort
  kOffer = 5,     // named edges: the sender's, a tensor to alias or read
  kClosed = 6,    // named edges: either's, the edge is over
  kWithdraw = 7,  // receiver: give these slots up
  kGivenUp = 8,   // sender: nothing of mine will land in these slots any more
  kTaken = 9,     // named edges: the receiver's, how far it has taken what was sent
};

constexpr std::uint32_t tag_of(RecordType type) {
  return kRecordTag | static_cast<std::uint32_t>(type);
}

// kEdge.
struct EdgeRecord {
  std::uint32_t edge = 0;
  EdgeKind kind = EdgeKind::kDynamic;
  bool tail_flag = false;
  std::uint32_t lane = 0;
  std::uint32_t slots = 0;      // as many follow in kSlots records
  std::uint64_t max_bytes = 0;  // capacity of each
  std::string name;
  TensorSpec spec;

  template <typename Wire>
  void fields(Wire& wire);
  std::vector<std::byte> encode() const;
  static Result<EdgeRecord> decode(ByteView bytes);
};

// A slot, granted, as its receiver tells the sender of it.
struct AnnouncedSlot {
  Credit credit;
  std::uint64_t capacity = 0;  // payload bytes
  RegionDescriptor descriptor;

  template <typename Wire>
  void fields(Wire& wire);
};

// kSlots.
struct SlotsRecord {
  std::string edge;  // its key
  std::vector<AnnouncedSlot> slots;

  template <typename Wire>
  void fields(Wire& wire);
  // As many records as it takes to keep each within `max_bytes`.
  static std::vector<std::vector<std::byte>> encode(std::string_view edge,
                                                    const std::vector<AnnouncedSlot>& slots,
                                                    std::uint64_t max_bytes);
  static Result<SlotsRecord> decode(ByteView bytes);
};

// kGrant.
struct GrantRecord {
  static constexpr std::size_t kMaxEntries = 128;  // more go into another record

  std::vector<Credit> credits;

  template <typename Wire>
  void fields(Wire& wire);
  std::vector<std::byte> encode() const;
  static Result<GrantRecord> decode(ByteView bytes);
};

// kReset: the sender's unused credits go on under these generations.
struct ResetRecord {
  static constexpr std::size_t kMaxEntries = 1024;

  std::string edge;         // its key
  std::uint32_t round = 0;  // how often the receiver has aborted
  std::vector<Credit> credits;

  template <typename Wire>
  void fields(Wire& wire);
  std::vector<std::byte> encode() const;
  static Result<ResetRecord> decode(ByteView bytes);
};

// kWithdraw and kGivenUp.
struct SlotListRecord {
  static constexpr std::size_t kMaxEntries = 1024;  // more go into another record

  std::vector<std::uint32_t> slots;

  template <typename Wire>
  void fields(Wire& wire);
  std::vector<std::byte> encode() const;
  static Result<SlotListRecord> decode(ByteView bytes);
};

// kClosed.
struct ClosedRecord {
  std::uint32_t edge = 0;
  bool by_receiver = false;
  std::uint64_t sequence = 0;  // by the sender: of its last tensor; else as in TakenRecord
  bool abandoned = false;      // by the sender, which had more to send

  template <typename Wire>
  void fields(Wire& wire);
  std::vector<std::byte> encode() const;
  static Result<ClosedRecord> decode(ByteView bytes);
};

// kTaken.
struct TakenRecord {
  std::uint32_t edge = 0;
  std::uint64_t sequence = 0;  // every tensor up to this one was received or dropped

  template <typename Wire>
  void fields(Wire& wire);
  std::vector<std::byte> encode() const;
  static Result<TakenRecord> decode(ByteView bytes);
};

// The description in the head of a slot of a named edge.
struct PushDescription {
  std::uint64_t sequence = 0;
  std::vector<std::uint64_t> dims;  // at most kMaxDimensions

  template <typename Wire>
  void fields(Wire& wire);
  std::vector<std::byte> encode() const;
  static Result<PushDescription> decode(ByteView bytes);
};

inline constexpr core::Reading kReadRecord = {
    .operation = "read a transfer record",
    .remedy =
        "run the same Farwrite release on both sides, and send no other notifications on this "
        "channel"};
// kProtocolError: "read a transfer record: <cause>".
Status malformed_record(std::string_view cause);

// A spec inside a record: u32 item bytes, string dtype, u8 rank, u64 dims.
struct SpecField {
  TensorSpec& spec;

  static auto dims(std::vector<std::uint64_t>& of) {
    return core::list<std::uint8_t>(of, kMaxDimensions, "a rank is too large");
  }

  template <typename Wire>
  void fields(Wire& wire) {
    wire(spec.item_bytes, core::sized(spec.dtype, kMaxDtypeBytes), dims(spec.dims));
  }
};

}  // namespace farwrite::transfer
