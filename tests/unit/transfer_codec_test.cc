// The records and heads of the transfer layer: what is written is read, and nothing else is.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "transfer/offer.h"
#include "transfer/received.h"
#include "transfer/records.h"
#include "transfer/slot_head.h"

namespace farwrite::transfer {
namespace {

using Bytes = std::vector<std::byte>;

ByteView view(const Bytes& bytes) { return {bytes.data(), bytes.size()}; }

TensorSpec spec_of_rank(std::size_t rank) {
  return {std::string(rank, 'd'), 3, std::vector<std::uint64_t>(rank, 2)};
}

EdgeRecord edge() {
  EdgeRecord record;
  record.edge = 7;
  record.kind = EdgeKind::kStatic;
  record.lane = 3;
  record.slots = 2;
  record.spec = spec_of_rank(5);
  record.max_bytes = *record.spec.bytes();
  record.name = "weights";
  return record;
}

OfferRecord offer() {
  OfferRecord record;
  record.edge = 9;
  record.round = 4;
  record.sequence = 77;
  record.epoch = 123456789;
  record.spec = spec_of_rank(16);
  record.bytes = *record.spec.bytes();
  return record;
}

GrantRecord grant() { return {{{3, 4}, {0xffffff, ~std::uint64_t{0}}}}; }

ResetRecord reset() { return {"1", 2, grant().credits}; }

SlotListRecord slot_list() { return {{3, 0xffffff}}; }

AnnouncedSlot slot(std::uint32_t number) {
  AnnouncedSlot announced;
  announced.credit = {number, number + 10};
  announced.capacity = 244;
  announced.descriptor.length = 500;
  announced.descriptor.access = Access::kWrite;
  announced.descriptor.keys = {{FabricKind::kShm, number}};
  return announced;
}

TEST(TransferCodec, EdgesOfEveryRankAreReadAsWritten) {
  for (std::size_t rank = 0; rank <= kMaxDimensions; ++rank) {
    EdgeRecord record = edge();
    record.spec = spec_of_rank(rank);
    record.max_bytes = *record.spec.bytes();
    Result<EdgeRecord> read = EdgeRecord::decode(view(record.encode()));
    ASSERT_TRUE(read.ok()) << read.status().to_string();
    EXPECT_TRUE(read->spec == record.spec);
    EXPECT_EQ(read->name, "weights");
    EXPECT_EQ(read->lane, 3U);
    EXPECT_EQ(read->slots, 2U);
    EXPECT_EQ(read->max_bytes, record.max_bytes);
  }
}

TEST(TransferCodec, ImpossibleEdgesAreRefused) {
  const auto refused = [](const std::function<void(EdgeRecord&)>& change) {
    EdgeRecord record = edge();
    change(record);
    return EdgeRecord::decode(view(record.encode())).status().code() == StatusCode::kProtocolError;
  };
  EXPECT_TRUE(refused([](EdgeRecord& r) { r.name.clear(); }));
  EXPECT_TRUE(refused([](EdgeRecord& r) { r.name = std::string(256, 'x'); }));
  EXPECT_TRUE(refused([](EdgeRecord& r) { r.slots = 0; }));
  EXPECT_TRUE(refused([](EdgeRecord& r) { r.slots = kMaxSlots + 1; }));
  EXPECT_TRUE(refused([](EdgeRecord& r) { r.kind = EdgeKind::kDynamic; }));
  EXPECT_TRUE(refused([](EdgeRecord& r) { r.kind = static_cast<EdgeKind>(4); }));
  EXPECT_TRUE(refused([](EdgeRecord& r) { ++r.max_bytes; }));
  EXPECT_TRUE(refused([](EdgeRecord& r) { r.spec.dims.assign(17, 1); }));
  EXPECT_TRUE(refused([](EdgeRecord& r) { r.spec.dims.assign(8, 1ULL << 40); }));
  EXPECT_TRUE(refused([](EdgeRecord& r) { r.spec.dtype.assign(513, 'x'); }));
  EXPECT_TRUE(refused([](EdgeRecord& r) {
    r.kind = EdgeKind::kBounded;
    r.tail_flag = true;
  }));
  EXPECT_TRUE(refused([](EdgeRecord& r) {
    r.kind = EdgeKind::kBounded;
    r.max_bytes = kMaxTensorBytes + 1;
  }));
  EXPECT_FALSE(refused([](EdgeRecord&) {}));
}

TEST(TransferCodec, SlotsAreSplitIntoRecordsThatFit) {
  std::vector<AnnouncedSlot> slots;
  for (std::uint32_t i = 0; i < 100; ++i) slots.push_back(slot(i));
  const std::vector<Bytes> records = SlotsRecord::encode("layer/weights", slots, 1000);
  EXPECT_GT(records.size(), 5U);
  std::uint32_t next = 0;
  for (const Bytes& record : records) {
    EXPECT_LE(record.size(), 1000U);
    Result<SlotsRecord> read = SlotsRecord::decode(view(record));
    ASSERT_TRUE(read.ok()) << read.status().to_string();
    EXPECT_EQ(read->edge, "layer/weights");
    for (const AnnouncedSlot& announced : read->slots) {
      EXPECT_EQ(announced.credit.slot, next);
      EXPECT_EQ(announced.credit.generation, next + 10);
      EXPECT_EQ(announced.capacity, 244U);
      EXPECT_EQ(announced.descriptor.keys.front().key, next);
      ++next;
    }
  }
  EXPECT_EQ(next, 100U);
}

TEST(TransferCodec, CreditsAndEndsAreReadAsWritten) {
  Result<GrantRecord> granted = GrantRecord::decode(view(grant().encode()));
  ASSERT_TRUE(granted.ok());
  ASSERT_EQ(granted->credits.size(), 2U);
  EXPECT_EQ(granted->credits[1].slot, 0xffffffU);
  EXPECT_EQ(granted->credits[1].generation, ~std::uint64_t{0});
  Result<ResetRecord> renewed = ResetRecord::decode(view(reset().encode()));
  ASSERT_TRUE(renewed.ok());
  EXPECT_EQ(renewed->edge, "1");
  EXPECT_EQ(renewed->round, 2U);
  ASSERT_EQ(renewed->credits.size(), 2U);
  EXPECT_EQ(renewed->credits[0].generation, 4U);
  Result<SlotListRecord> listed = SlotListRecord::decode(view(slot_list().encode()));
  ASSERT_TRUE(listed.ok());
  EXPECT_EQ(listed->slots, slot_list().slots);
  for (const bool by_receiver : {false, true}) {
    Result<ClosedRecord> closed =
        ClosedRecord::decode(view(ClosedRecord{8, by_receiver, 6, !by_receiver}.encode()));
    ASSERT_TRUE(closed.ok());
    EXPECT_EQ(closed->by_receiver, by_receiver);
    EXPECT_EQ(closed->abandoned, !by_receiver);
    EXPECT_EQ(closed->sequence, 6U);
  }
  Result<TakenRecord> taken = TakenRecord::decode(view(TakenRecord{8, 1ULL << 40}.encode()));
  ASSERT_TRUE(taken.ok());
  EXPECT_EQ(taken->edge, 8U);
  EXPECT_EQ(taken->sequence, 1ULL << 40);
  GrantRecord many = grant();
  many.credits.resize(GrantRecord::kMaxEntries + 1);
  EXPECT_FALSE(GrantRecord::decode(view(many.encode())).ok());
  ResetRecord most = reset();
  most.credits.resize(ResetRecord::kMaxEntries + 1);
  EXPECT_FALSE(ResetRecord::decode(view(most.encode())).ok());
  SlotListRecord long_list;
  long_list.slots.resize(SlotListRecord::kMaxEntries + 1);
  EXPECT_FALSE(SlotListRecord::decode(view(long_list.encode())).ok());
  ResetRecord long_key = reset();
  long_key.edge.assign(kMaxEdgeKeyBytes + 1, 'x');
  EXPECT_FALSE(ResetRecord::decode(view(long_key.encode())).ok());
}

TEST(TransferCodec, OffersAreReadAsWrittenAndNeverWithAFlippedBit) {
  const Bytes bytes = offer().encode();
  Result<OfferRecord> read = OfferRecord::decode(view(bytes));
  ASSERT_TRUE(read.ok()) << read.status().to_string();
  EXPECT_EQ(read->sequence, 77U);
  EXPECT_EQ(read->epoch, 123456789U);
  EXPECT_TRUE(read->spec == offer().spec);
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    Bytes flipped = bytes;
    flipped[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_EQ(OfferRecord::decode(view(flipped)).status().code(), StatusCode::kProtocolError);
  }
}

TEST(TransferCodec, AnOfferHasAllOfItsTensorOrNothing) {
  const Bytes head = offer().encode();
  for (const std::uint64_t size : {std::uint64_t{1}, offer().bytes - 1, offer().bytes + 1}) {
    Bytes bytes = head;
    bytes.resize(head.size() + size);
    EXPECT_EQ(OfferRecord::decode(view(bytes)).status().code(), StatusCode::kProtocolError) << size;
  }
  Bytes bytes = head;
  bytes.resize(head.size() + offer().bytes, std::byte{7});
  Result<OfferRecord> read = OfferRecord::decode(view(bytes));
  ASSERT_TRUE(read.ok()) << read.status().to_string();
  EXPECT_EQ(read->eager.data, bytes.data() + head.size());
  EXPECT_EQ(read->eager.size, offer().bytes);
}

// Aligned allocations round up: a size near 2^64 would become a block of a few bytes.
TEST(TransferCodec, ATensorTooLargeForAnyMemoryIsRefusedBeforeMemoryIsAskedFor) {
  OfferRecord record = offer();
  record.spec = {"<f4", 4, {(std::uint64_t{1} << 62) - 1}};
  record.bytes = *record.spec.bytes();
  EXPECT_EQ(OfferRecord::decode(view(record.encode())).status().code(), StatusCode::kProtocolError);
  for (const std::uint64_t bytes : {record.bytes, UINT64_MAX, kMaxTensorBytes + 1}) {
    EXPECT_EQ(allocate_on_heap(bytes).status().code(), StatusCode::kResourceExhausted) << bytes;
  }
}

TEST(TransferCodec, HeadsAreReadAsWrittenAndNeverWithAFlippedBit) {
  for (std::size_t length = 0; length <= kMaxSlotDescriptionBytes; length += 24) {
    SlotHead head;
    head.slot = 5;
    head.generation = 6;
    head.bytes = ~std::uint64_t{0};
    head.description.assign(length, std::byte{9});
    const auto bytes = head.encode();
    Result<SlotHead> read = SlotHead::decode(bytes);
    ASSERT_TRUE(read.ok()) << read.status().to_string();
    EXPECT_EQ(read->slot, 5U);
    EXPECT_EQ(read->generation, 6U);
    EXPECT_EQ(read->bytes, ~std::uint64_t{0});
    EXPECT_EQ(read->description, head.description);
    for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
      const std::size_t byte = bit / 8;
      if (byte >= 32 + length && byte < kSlotHeadBytes - 8) continue;  // nothing reads it
      auto flipped = bytes;
      flipped[byte] ^= std::byte{1} << (bit % 8);
      EXPECT_FALSE(SlotHead::decode(flipped).ok()) << "bit " << bit;
    }
  }
}

TEST(TransferCodec, PushesOfEveryRankFitAHeadAndAreReadAsWritten) {
  for (std::size_t rank = 0; rank <= kMaxDimensions; ++rank) {
    const PushDescription push{77, std::vector<std::uint64_t>(rank, 9)};
    const Bytes bytes = push.encode();
    EXPECT_LE(bytes.size(), kMaxSlotDescriptionBytes);
    Result<PushDescription> read = PushDescription::decode(view(bytes));
    ASSERT_TRUE(read.ok()) << read.status().to_string();
    EXPECT_EQ(read->sequence, 77U);
    EXPECT_EQ(read->dims, push.dims);
  }
  const PushDescription large{1, std::vector<std::uint64_t>(kMaxDimensions + 1, 1)};
  EXPECT_FALSE(PushDescription::decode(view(large.encode())).ok());
}

// No prefix of a record is one, and nothing may follow it.
TEST(TransferCodec, TruncatedAndPaddedRecordsAreRefused) {
  struct Case {
    Bytes bytes;
    std::function<bool(ByteView)> read;
  };
  const std::vector<Case> cases = {
      {edge().encode(), [](ByteView v) { return EdgeRecord::decode(v).ok(); }},
      {SlotsRecord::encode("1", {slot(1), slot(2)}, 4096).front(),
       [](ByteView v) { return SlotsRecord::decode(v).ok(); }},
      {grant().encode(), [](ByteView v) { return GrantRecord::decode(v).ok(); }},
      {reset().encode(), [](ByteView v) { return ResetRecord::decode(v).ok(); }},
      {slot_list().encode(), [](ByteView v) { return SlotListRecord::decode(v).ok(); }},
      {PushDescription{1, {2, 3}}.encode(),
       [](ByteView v) { return PushDescription::decode(v).ok(); }},
      {ClosedRecord{1, true, 0}.encode(), [](ByteView v) { return ClosedRecord::decode(v).ok(); }},
      {TakenRecord{1, 2}.encode(), [](ByteView v) { return TakenRecord::decode(v).ok(); }},
      {offer().encode(), [](ByteView v) { return OfferRecord::decode(v).ok(); }},
  };
  for (const Case& one : cases) {
    EXPECT_TRUE(one.read(view(one.bytes)));
    for (std::size_t length = 0; length < one.bytes.size(); ++length) {
      EXPECT_FALSE(one.read({one.bytes.data(), length})) << length;
    }
    Bytes padded = one.bytes;
    padded.push_back(std::byte{0});
    EXPECT_FALSE(one.read(view(padded)));
  }
}

TEST(TransferCodec, RandomBytesAreNeverTakenForMoreThanTheyAre) {
  std::uint32_t seed = 1;
  for (int i = 0; i < 20'000; ++i) {
    Bytes bytes(static_cast<std::size_t>(i % 300));
    for (std::byte& byte : bytes) {
      seed = seed * 1664525 + 1013904223;
      byte = static_cast<std::byte>(seed >> 24 & (i % 2 == 0 ? 0xff : 0x03));
    }
    (void)EdgeRecord::decode(view(bytes));
    (void)SlotsRecord::decode(view(bytes));
    (void)GrantRecord::decode(view(bytes));
    (void)ResetRecord::decode(view(bytes));
    (void)SlotListRecord::decode(view(bytes));
    (void)PushDescription::decode(view(bytes));
    (void)ClosedRecord::decode(view(bytes));
    (void)TakenRecord::decode(view(bytes));
    EXPECT_FALSE(OfferRecord::decode(view(bytes)).ok()) << "the checksum";
  }
}

}  // namespace
}  // namespace farwrite::transfer
