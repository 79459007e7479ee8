// Slots, credits, offers and specs, without a channel.
#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "transfer/dynamic_slot.h"
#include "transfer/sequence.h"
#include "transfer/static_slot.h"
#include "transfer/tail_flag.h"

namespace farwrite::transfer {
namespace {

using Outcome = StaticSlot::Outcome;

class Slots : public testing::Test {
 protected:
  // What a sender's write does to the slot.
  void push(std::uint64_t generation, std::vector<std::uint64_t> dims = {2, 3}) {
    SlotHead head;
    head.edge = terms_.edge;
    head.generation = generation;
    head.sequence = 1;
    head.bytes = *TensorSpec{"", 4, dims}.bytes();
    head.dims = std::move(dims);
    write(head);
  }
  void write(const SlotHead& head) {
    const auto bytes = head.encode();
    std::memcpy(memory_.data(), bytes.data(), bytes.size());
  }

  SlotTerms terms_{5, EdgeKind::kStatic, {"<f4", 4, {2, 3}}, 24};
  std::vector<std::byte> memory_ = std::vector<std::byte>(kSlotHeadBytes + 24);
  SlotCounts counts_;
  StaticSlot slot_{memory_.data(), counts_};
};

TEST_F(Slots, GoThroughTheirStatesAndCountEachStep) {
  EXPECT_EQ(slot_.grant(), 1U);
  EXPECT_EQ(slot_.state(), SlotState::kGranted);
  push(1);
  EXPECT_EQ(slot_.land(terms_).outcome, Outcome::kLanded);
  EXPECT_EQ(slot_.state(), SlotState::kLanded);
  slot_.view();
  EXPECT_EQ(slot_.state(), SlotState::kViewed);
  slot_.give_back();
  EXPECT_EQ(slot_.grant(), 2U) << "no grant is like an earlier one";
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
  EXPECT_EQ(slot_.land(terms_).outcome, Outcome::kStale);
  EXPECT_EQ(slot_.state(), SlotState::kFree);
  EXPECT_EQ(counts_.stale, 1U);
}

TEST_F(Slots, WhatDoesNotFitTheTermsIsNeverTrusted) {
  const auto outcome = [&](const std::function<void(SlotHead&)>& change) {
    SlotHead head;
    head.edge = terms_.edge;
    head.generation = slot_.grant();
    head.sequence = 1;
    head.bytes = 24;
    head.dims = {2, 3};
    change(head);
    write(head);
    const Outcome result = slot_.land(terms_).outcome;
    if (result == Outcome::kLanded) slot_.give_back();
    EXPECT_EQ(slot_.state(), SlotState::kFree);
    return result;
  };
  EXPECT_EQ(outcome([](SlotHead&) {}), Outcome::kLanded);
  EXPECT_EQ(outcome([](SlotHead& h) { h.edge = 6; }), Outcome::kMalformed);
  EXPECT_EQ(outcome([](SlotHead& h) { ++h.generation; }), Outcome::kMalformed);
  EXPECT_EQ(outcome([](SlotHead& h) { h.bytes = 23; }), Outcome::kMalformed);
  EXPECT_EQ(outcome([](SlotHead& h) { h.dims = {3, 2}; }), Outcome::kMalformed);
  EXPECT_EQ(outcome([](SlotHead& h) { h.bytes = ~std::uint64_t{0}; }), Outcome::kMalformed);
  terms_.kind = EdgeKind::kBounded;
  terms_.spec.dims.clear();
  EXPECT_EQ(outcome([](SlotHead& h) { h.dims = {3, 2}; }), Outcome::kLanded);
  EXPECT_EQ(outcome([](SlotHead& h) {
              h.dims = {7};
              h.bytes = 28;
            }),
            Outcome::kMalformed)
      << "over the capacity";
  EXPECT_EQ(outcome([](SlotHead& h) {
              h.dims = {1ULL << 62, 4};
              h.bytes = 0;
            }),
            Outcome::kMalformed)
      << "the product wraps around";
}

TEST_F(Slots, GarbageAndUnaskedLandingsAreCounted) {
  EXPECT_EQ(slot_.land(terms_).outcome, Outcome::kUnasked);
  slot_.grant();
  EXPECT_EQ(slot_.land(terms_).outcome, Outcome::kMalformed) << "nothing was written";
  slot_.grant();
  push(2);
  EXPECT_EQ(slot_.land(terms_).outcome, Outcome::kLanded);
  EXPECT_EQ(slot_.land(terms_).outcome, Outcome::kUnasked) << "it is the receiver's now";
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

TEST(SlotCredits, AreUsedInTheOrderOfTheGrants) {
  SlotCredits credits;
  EXPECT_TRUE(credits.granted({1, 10}));
  EXPECT_TRUE(credits.granted({2, 20}));
  EXPECT_FALSE(credits.granted({1, 11})) << "that one is granted";
  EXPECT_EQ(credits.take()->slot, 1U);
  EXPECT_EQ(credits.take()->slot, 2U);
  EXPECT_FALSE(credits.take().has_value());
  EXPECT_EQ(credits.grants(), 2U);
}

TEST(SlotCredits, AResetRenewsWhatIsUnusedAndGivesNothingForWhatIsUsed) {
  SlotCredits credits;
  credits.granted({1, 10});
  credits.granted({2, 20});
  EXPECT_EQ(credits.take()->slot, 1U);
  credits.reset({1, 11});
  credits.reset({2, 21});
  EXPECT_EQ(credits.available(), 1U) << "the push into 1 is on its way to its tombstone";
  const auto credit = credits.take();
  EXPECT_EQ(credit->slot, 2U);
  EXPECT_EQ(credit->generation, 21U);
  credits.granted({1, 12});
  EXPECT_EQ(credits.take()->generation, 12U);
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

TEST(Offers, AreJudgedByEpochRoundLeaseAndTerms) {
  const SlotTerms terms{5, EdgeKind::kBounded, {"<f4", 4, {}}, 100};
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
