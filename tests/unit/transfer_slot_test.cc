// Slots, credits, offers and specs, without a channel.
#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "transfer/credit_table.h"
#include "transfer/offer.h"
#include "transfer/sequence.h"
#include "transfer/slot.h"
#include "transfer/tail_flag.h"

namespace farwrite::transfer {
namespace {

class Slots : public testing::Test {
 protected:
  static constexpr std::uint64_t kCapacity = 24;

  SlotHead head_of(std::uint64_t generation) const {
    return {slot_.number(), generation, kCapacity, {std::byte{7}}};
  }
  // What a sender's write does to the slot.
  void push(std::uint64_t generation) { write(head_of(generation)); }
  void write(const SlotHead& head) {
    const auto bytes = head.encode();
    std::memcpy(memory_.data(), bytes.data(), bytes.size());
  }

  std::vector<std::byte> memory_ = std::vector<std::byte>(kSlotHeadBytes + kCapacity);
  SlotCounts counts_;
  Slot slot_{5, memory_.data(), kCapacity, counts_};
};

TEST_F(Slots, GoThroughTheirStatesAndCountEachStep) {
  EXPECT_EQ(slot_.grant().generation, 1U);
  EXPECT_EQ(slot_.state(), SlotState::kGranted);
  push(1);
  EXPECT_EQ(slot_.land().verdict, PushVerdict::kLanded);
  EXPECT_EQ(slot_.state(), SlotState::kLanded);
  slot_.view();
  EXPECT_EQ(slot_.state(), SlotState::kViewed);
  slot_.give_back();
  EXPECT_EQ(slot_.grant().generation, 2U) << "no grant is like an earlier one";
  EXPECT_TRUE(slot_.revoke());
  EXPECT_FALSE(slot_.revoke());
  EXPECT_EQ(counts_.grants, 2U);
  EXPECT_EQ(counts_.landed, 1U);
  EXPECT_EQ(counts_.revoked, 1U);
  EXPECT_EQ(counts_.returned, 1U);
}

TEST_F(Slots, APushOfAnEarlierGrantIsStaleAndLeavesTheSlotFree) {
  slot_.grant();
  slot_.revoke();
  slot_.grant();
  push(1);
  EXPECT_EQ(slot_.land().verdict, PushVerdict::kStale);
  EXPECT_EQ(slot_.state(), SlotState::kFree);
  EXPECT_EQ(counts_.stale, 1U);
}

TEST_F(Slots, AHeadThatDoesNotFitTheGrantIsNeverTrusted) {
  const auto verdict = [&](const std::function<void(SlotHead&)>& change) {
    SlotHead head = head_of(slot_.grant().generation);
    change(head);
    write(head);
    const PushVerdict result = slot_.land().verdict;
    if (result == PushVerdict::kLanded) slot_.give_back();
    EXPECT_EQ(slot_.state(), SlotState::kFree);
    return result;
  };
  EXPECT_EQ(verdict([](SlotHead&) {}), PushVerdict::kLanded);
  EXPECT_EQ(verdict([](SlotHead& h) { h.bytes = 0; }), PushVerdict::kLanded);
  EXPECT_EQ(verdict([](SlotHead& h) { h.slot = 6; }), PushVerdict::kMalformed);
  EXPECT_EQ(verdict([](SlotHead& h) { ++h.generation; }), PushVerdict::kMalformed);
  EXPECT_EQ(verdict([](SlotHead& h) { ++h.bytes; }), PushVerdict::kMalformed)
      << "over the capacity";
  EXPECT_EQ(verdict([](SlotHead& h) { h.bytes = ~std::uint64_t{0}; }), PushVerdict::kMalformed);
}

TEST_F(Slots, ARefusedTensorCountsAsMalformedAndNotAsLanded) {
  push(slot_.grant().generation);
  EXPECT_EQ(slot_.land().verdict, PushVerdict::kLanded);
  slot_.refuse();
  EXPECT_EQ(slot_.state(), SlotState::kFree);
  EXPECT_EQ(counts_.landed, 0U);
  EXPECT_EQ(counts_.malformed, 1U);
}

TEST_F(Slots, GarbageAndUnaskedLandingsAreCounted) {
  EXPECT_EQ(slot_.land().verdict, PushVerdict::kUnasked);
  slot_.grant();
  EXPECT_EQ(slot_.land().verdict, PushVerdict::kMalformed) << "nothing was written";
  slot_.grant();
  push(2);
  EXPECT_EQ(slot_.land().verdict, PushVerdict::kLanded);
  EXPECT_EQ(slot_.land().verdict, PushVerdict::kUnasked) << "it is the receiver's now";
  EXPECT_EQ(slot_.state(), SlotState::kLanded);
  EXPECT_EQ(counts_.malformed, 3U);
}

using SlotsDeathTest = Slots;

TEST_F(SlotsDeathTest, AnIllegalStepEndsTheProgram) {
  EXPECT_DEATH(slot_.view(), "");
  EXPECT_DEATH(slot_.give_back(), "");
  slot_.grant();
  EXPECT_DEATH(slot_.grant(), "");
}

AnnouncedSlot announced(std::uint32_t slot, std::uint64_t generation,
                        std::uint64_t capacity = 100) {
  AnnouncedSlot announced;
  announced.credit = {slot, generation};
  announced.capacity = capacity;
  return announced;
}

class Credits : public testing::Test {
 protected:
  // Announced by the receiver, and opened here.
  void open(std::uint32_t slot, std::uint64_t generation, std::uint64_t capacity = 100) {
    ASSERT_TRUE(credits_.announce("edge", announced(slot, generation, capacity)));
    ASSERT_TRUE(credits_.next_to_open("edge").has_value());
    ASSERT_TRUE(credits_.opened(slot, {}));
  }
  // 0: no credit.
  std::uint32_t take(std::uint64_t bytes = 100) {
    const auto taken = credits_.take("edge", bytes);
    return taken.has_value() ? taken->credit.slot : 0;
  }

  CreditTable credits_;
  RemoteRegion gone_;
};

TEST_F(Credits, AreUsedInTheOrderOfTheGrants) {
  open(1, 10);
  open(2, 20);
  EXPECT_FALSE(credits_.grant({1, 11})) << "that one is granted";
  EXPECT_FALSE(credits_.grant({3, 1})) << "nobody announced it";
  EXPECT_FALSE(credits_.announce("other", announced(1, 1))) << "the number is in use";
  EXPECT_EQ(take(), 1U);
  EXPECT_EQ(take(), 2U);
  EXPECT_EQ(take(), 0U);
  EXPECT_EQ(credits_.counts("edge").grants, 2U);
  EXPECT_TRUE(credits_.grant({2, 21}));
  EXPECT_EQ(credits_.counts("edge").grants, 3U);
  EXPECT_EQ(credits_.counts("edge").available, 1U);
  EXPECT_EQ(credits_.counts("another").grants, 0U);
}

TEST_F(Credits, AreOnlyThoseOfTheEdgeWhoseSlotIsOpenAndLargeEnough) {
  ASSERT_TRUE(credits_.announce("edge", announced(1, 10)));
  EXPECT_EQ(take(), 0U) << "it is not open";
  ASSERT_TRUE(credits_.next_to_open("edge").has_value());
  EXPECT_FALSE(credits_.next_to_open("edge").has_value());
  ASSERT_TRUE(credits_.opened(1, {}));
  EXPECT_FALSE(credits_.take("another", 1).has_value());
  EXPECT_EQ(take(101), 0U);
  open(2, 20, 200);
  EXPECT_EQ(take(101), 2U);
  EXPECT_EQ(take(100), 1U);
}

TEST_F(Credits, ThatWereNotUsedAreThere) {
  open(1, 10);
  const auto taken = credits_.take("edge", 1);
  ASSERT_TRUE(taken.has_value());
  EXPECT_TRUE(credits_.put_back(taken->credit));
  EXPECT_EQ(credits_.counts("edge").grants, 1U) << "the same grant";
  EXPECT_EQ(take(), 1U);
  EXPECT_FALSE(credits_.withdraw(1, gone_)) << "a push is under way";
  EXPECT_FALSE(credits_.put_back(taken->credit)) << "it must be given up now";
}

TEST_F(Credits, ASlotIsGivenUpOnceNothingIsWrittenIntoIt) {
  open(1, 10);
  EXPECT_TRUE(credits_.withdraw(1, gone_));
  EXPECT_FALSE(credits_.withdraw(1, gone_)) << "it is forgotten";
  EXPECT_EQ(take(), 0U);
  ASSERT_TRUE(credits_.announce("edge", announced(2, 20)));
  EXPECT_TRUE(credits_.withdraw(2, gone_)) << "nobody opens it";
  EXPECT_FALSE(credits_.next_to_open("edge").has_value());
  ASSERT_TRUE(credits_.announce("edge", announced(3, 30)));
  ASSERT_TRUE(credits_.next_to_open("edge").has_value());
  EXPECT_FALSE(credits_.withdraw(3, gone_)) << "who opens it gives it up";
  EXPECT_FALSE(credits_.opened(3, {}));
  EXPECT_FALSE(credits_.grant({3, 31}));
}

TEST_F(Credits, OfAClosedEdgeAreForgotten) {
  open(1, 10);
  ASSERT_TRUE(credits_.announce("edge", announced(2, 20)));
  ASSERT_TRUE(credits_.next_to_open("edge").has_value());
  std::vector<RemoteRegion> gone;
  credits_.forget_edge("edge", gone);
  EXPECT_EQ(gone.size(), 1U);
  EXPECT_EQ(take(), 0U);
  EXPECT_FALSE(credits_.opened(2, {})) << "the edge was closed meanwhile";
  EXPECT_TRUE(credits_.announce("edge", announced(1, 1))) << "the numbers are free";
}

TEST_F(Credits, OfAnEdgeThatThisSideClosedTakeGrantsAndGiveNone) {
  open(1, 10);
  open(2, 20);
  EXPECT_EQ(take(), 1U);
  std::vector<RemoteRegion> gone;
  credits_.close_edge("edge", gone);
  EXPECT_EQ(gone.size(), 2U);
  EXPECT_EQ(take(), 0U);
  EXPECT_TRUE(credits_.grant({1, 11})) << "the receiver has not heard of the end";
  EXPECT_EQ(credits_.counts("edge").available, 2U);
  EXPECT_EQ(take(), 0U);
}

TEST_F(Credits, AResetRenewsWhatIsUnusedAndGivesNothingForWhatIsUsed) {
  open(1, 10);
  open(2, 20);
  EXPECT_EQ(take(), 1U);
  EXPECT_TRUE(credits_.reset({1, 11}));
  EXPECT_TRUE(credits_.reset({2, 21}));
  EXPECT_FALSE(credits_.reset({3, 1})) << "nobody announced it";
  EXPECT_EQ(credits_.counts("edge").available, 1U)
      << "the push into 1 is on its way to its tombstone";
  const auto taken = credits_.take("edge", 1);
  EXPECT_EQ(taken->credit.slot, 2U);
  EXPECT_EQ(taken->credit.generation, 21U);
  EXPECT_TRUE(credits_.grant({1, 12}));
  EXPECT_EQ(credits_.take("edge", 1)->credit.generation, 12U);
}

TEST(TensorSpecs, SizesAreCheckedProducts) {
  EXPECT_EQ(*(TensorSpec{"<f4", 4, {}}).bytes(), 4U);
  EXPECT_EQ(*(TensorSpec{"<f4", 4, {2, 0, 5}}).bytes(), 0U);
  EXPECT_EQ(*(TensorSpec{"<f4", 4, {1ULL << 32, 3}}).bytes(), 3ULL << 34) << "over 4 GB";
  EXPECT_EQ(*(TensorSpec{"<f4", 4, {1ULL << 40, 1ULL << 40, 0}}).bytes(), 0U);
  EXPECT_FALSE((TensorSpec{"<f4", 4, {1ULL << 62}}).bytes().ok());
  EXPECT_FALSE((TensorSpec{"<f4", 4, std::vector<std::uint64_t>(17, 1)}).bytes().ok());
  EXPECT_TRUE((TensorSpec{"<f4", 4, std::vector<std::uint64_t>(16, 1)}).bytes().ok());
  EXPECT_FALSE((TensorSpec{std::string(513, 'x'), 4, {}}).bytes().ok());
}

TEST(Pushes, FitTheTermsOfTheirEdgeOrAreRefused) {
  EdgeTerms terms{5, EdgeKind::kStatic, {"<f4", 4, {2, 3}}, 24};
  EXPECT_TRUE(terms.fit({1, {2, 3}}, 24));
  EXPECT_FALSE(terms.fit({1, {2, 3}}, 23));
  EXPECT_FALSE(terms.fit({1, {3, 2}}, 24));
  terms.kind = EdgeKind::kBounded;
  terms.spec.dims.clear();
  EXPECT_TRUE(terms.fit({1, {3, 2}}, 24));
  EXPECT_FALSE(terms.fit({1, {3, 2}}, 28));
  EXPECT_FALSE(terms.fit({1, {1ULL << 62, 4}}, 0)) << "the product wraps around";
}

TEST(Offers, AreJudgedByEpochRoundLeaseAndTerms) {
  const EdgeTerms terms{5, EdgeKind::kBounded, {"<f4", 4, {}}, 100};
  const auto judge = [&](const std::function<void(OfferRecord&)>& change,
                         std::optional<std::uint64_t> lent = 24) {
    OfferRecord offer;
    offer.edge = 5;
    offer.round = 3;
    offer.epoch = 1000;
    offer.spec = {"<f4", 4, {2, 3}};
    offer.bytes = 24;
    change(offer);
    return judge_offer(offer, terms, 3, 1000, lent);
  };
  EXPECT_EQ(judge([](OfferRecord&) {}), OfferVerdict::kWelcome);
  EXPECT_EQ(judge([](OfferRecord& o) { o.epoch = 999; }), OfferVerdict::kStale);
  EXPECT_EQ(judge([](OfferRecord& o) { o.round = 2; }), OfferVerdict::kStale);
  EXPECT_EQ(judge([](OfferRecord& o) { o.round = 4; }), OfferVerdict::kMalformed);
  EXPECT_EQ(judge([](OfferRecord&) {}, std::nullopt), OfferVerdict::kMalformed);
  EXPECT_EQ(judge([](OfferRecord&) {}, 23), OfferVerdict::kMalformed);
  EXPECT_EQ(judge([](OfferRecord& o) { o.spec.dtype = "<i4"; }), OfferVerdict::kMalformed);
  EXPECT_EQ(judge(
                [](OfferRecord& o) {
                  o.bytes = 104;
                  o.spec.dims = {26};
                },
                104),
            OfferVerdict::kMalformed);
  const auto empty = [](OfferRecord& o) {
    o.bytes = 0;
    o.spec.dims = {0};
  };
  EXPECT_EQ(judge(empty, std::nullopt), OfferVerdict::kWelcome);
  EXPECT_EQ(judge(empty, 24), OfferVerdict::kMalformed);
  const std::vector<std::byte> bytes(24);
  const auto eager = [&](OfferRecord& o) { o.eager = {bytes.data(), bytes.size()}; };
  EXPECT_EQ(judge(eager, std::nullopt), OfferVerdict::kWelcome);
  EXPECT_EQ(judge(eager, 24), OfferVerdict::kMalformed) << "its tensor came twice";
}

TEST(Sequences, KeepTheOrderOfArrivalWhereNothingOvertakes) {
  Sequence<int> sequence(/*overtaking=*/false);
  sequence.add(1, 10);
  sequence.add(4, 40);  // 2 and 3 were dropped on their way
  EXPECT_FALSE(sequence.expects(4));
  EXPECT_FALSE(sequence.expects(3));
  EXPECT_TRUE(sequence.expects(5));
  EXPECT_EQ(sequence.ready(), (std::deque<int>{10, 40}));
}

TEST(Sequences, PutWhatOvertakesInOrderAndWaitForWhatIsMissing) {
  Sequence<int> sequence(/*overtaking=*/true);
  sequence.add(3, 30);
  sequence.add(2, std::nullopt);
  EXPECT_TRUE(sequence.ready().empty());
  EXPECT_FALSE(sequence.expects(3));
  sequence.add(1, 10);
  EXPECT_EQ(sequence.ready(), (std::deque<int>{10, 30}));
  EXPECT_EQ(sequence.last(), 3U);
  sequence.add(5, 50);
  EXPECT_EQ(sequence.drop(), (std::vector<int>{10, 30, 50}));
  sequence.add(4, 40);
  EXPECT_EQ(sequence.ready(), (std::deque<int>{40})) << "5 has been";
  EXPECT_EQ(sequence.last(), 5U);
}

TEST(TailFlags, AreAlignedBehindThePayloadAndNeverZeroOrOne) {
  for (std::uint64_t bytes = 0; bytes < 20; ++bytes) {
    EXPECT_EQ(tail_flag_offset(bytes) % 8, 0U);
    EXPECT_GE(tail_flag_offset(bytes), kSlotHeadBytes + bytes);
    EXPECT_LT(tail_flag_offset(bytes), kSlotHeadBytes + bytes + 8);
  }
  EXPECT_GT(tail_flag_value(1), 1U);
}

}  // namespace
}  // namespace farwrite::transfer
