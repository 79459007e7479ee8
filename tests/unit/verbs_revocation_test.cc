// Taking memory back from a verbs peer: behind an Ok of revoke() no byte lands.
#include <atomic>
#include <thread>

#include "unit/verbs_link_fixture.h"

namespace farwrite::fabric::verbs {
namespace {

class VerbsRevocationTest : public VerbsPair {
 protected:
  static FabricOptions small() {
    FabricOptions options;
    options.chunk_bytes = 20'000;
    options.send_queue_depth = 16;
    options.receive_credits = 8;
    return options;
  }
  static WireOptions unruly(std::uint64_t seed) {
    WireOptions wire;
    wire.seed = seed;
    wire.shuffle_within_write = true;
    wire.max_delay = std::chrono::microseconds(20);
    return wire;
  }
  // Asks again until it is Ok.
  void revoke(Side& owner, std::uint64_t region = kRegion) {
    ASSERT_TRUE(until([&] {
      return owner.link->revoke(owner.landing_key, region, core::Deadline::after({})).ok();
    }));
  }
  bool untouched(const Side& side, std::byte filled) {
    return std::all_of(side.landing->base(), side.landing->base() + kSegment,
                       [&](std::byte each) { return each == filled; });
  }
};

TEST_F(VerbsRevocationTest, BehindItNoByteLandsWhateverTheWireDoes) {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(seed);
    const std::uint32_t lanes = seed % 4 + 1;
    make(small(), lanes, {}, unruly(seed));
    const auto bytes = pattern(300'000);
    std::vector<Completion> writes;
    for (std::uint32_t i = 0; i < 8 * lanes; ++i) {
      writes.push_back(a_.write_with_notify(view_of(bytes), i * 1000, i, i % lanes));
    }
    const std::size_t some = seed * 3 % (8 * lanes);
    ASSERT_TRUE(until([&] { return b_.recorder.taken.size() >= some; }));
    revoke(b_);
    std::memset(b_.landing->base(), 0xee, kSegment);
    for (std::uint32_t i = 0; i < lanes; ++i) {
      const Completion late = a_.write_with_notify(view_of(bytes), 0, 99, i);
      EXPECT_EQ(outcome(late).code(), StatusCode::kFailedPrecondition);
    }
    bool told = false;
    for (const Completion& write : writes) {
      const Status status = outcome(write);
      EXPECT_TRUE(status.ok() || status.code() == StatusCode::kFailedPrecondition);
      ASSERT_TRUE(settled(write));
      told = told || !status.ok();
    }
    expect_ok(a_.flush());
    expect_ok(a_.notify(100));
    ASSERT_TRUE(
        until([&] { return !b_.recorder.taken.empty() && b_.recorder.taken.back().tag == 100; }));
    EXPECT_TRUE(untouched(b_, std::byte{0xee}));
    EXPECT_EQ(b_.recorder.errors + a_.recorder.errors, 0);
    close();
    a_ = {};
    b_ = {};
  }
}

TEST_F(VerbsRevocationTest, AWriteThatIsDroppedHalfWayEndsAndSettlesAndRaisesNoTag) {
  make(small(), 1, {}, unruly(1));  // a wire so slow that not all chunks pass before the question
  const auto bytes = pattern(1 << 20);  // more chunks than the send queue holds
  rnic_->pause();
  const Completion half = a_.write_with_notify(view_of(bytes), 0, 7);
  const Completion whole = a_.write_with_notify(view_of(bytes), 0, 8);
  EXPECT_EQ(b_.link->revoke(b_.landing_key, kRegion, core::Deadline::after({})).code(),
            StatusCode::kPeerSilent);
  rnic_->resume();
  revoke(b_);
  for (const Completion* one : {&half, &whole}) {
    const Status status = outcome(*one);
    EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
    EXPECT_THAT(status.message(), testing::HasSubstr("the memory was closed by its owner"));
    EXPECT_TRUE(settled(*one));
  }
  expect_ok(a_.notify(9));
  ASSERT_TRUE(until([&] { return !b_.recorder.taken.empty(); }));
  EXPECT_EQ(b_.recorder.taken[0].tag, 9U);
  EXPECT_LT(rnic_->bytes_moved(), bytes.size());
}

TEST_F(VerbsRevocationTest, ARegionIsNotImportedBehindItsRevocation) {
  make();
  revoke(b_);
  EXPECT_EQ(b_.view(a_, b_.landing_key, Access::kWrite).status().code(),
            StatusCode::kFailedPrecondition);
  EXPECT_TRUE(b_.view(a_, b_.shown_key, Access::kRead).ok()) << "another table of ids";
}

TEST_F(VerbsRevocationTest, OneRegionIsTakenBackAndItsNeighboursStay) {
  make({}, 2);
  const std::uint64_t key = b_.grant(2);
  const auto other = b_.view(a_, key, Access::kWrite, 2).value();
  revoke(b_);
  const auto bytes = pattern(1000);
  EXPECT_EQ(outcome(a_.write(view_of(bytes))).code(), StatusCode::kFailedPrecondition);
  a_.target = other;
  expect_ok(a_.write_with_notify(view_of(bytes), 0, 1));
  ASSERT_TRUE(until([&] { return b_.recorder.taken.size() == 1; }));
  EXPECT_TRUE(holds(b_.landing->base(), bytes));
  revoke(b_, 2);
  EXPECT_EQ(outcome(a_.write(view_of(bytes))).code(), StatusCode::kFailedPrecondition);
}

TEST_F(VerbsRevocationTest, ThousandsAtOnceAreAskedForTogether) {
  make({}, 3);
  constexpr std::uint64_t kCount = 5000;
  for (std::uint64_t id = 2; id < kCount; ++id) (void)b_.grant(id);
  const std::uint64_t before = rnic_->posted(IBV_WR_SEND);
  for (std::uint64_t id = 1; id < kCount; ++id) {
    EXPECT_EQ(b_.link->revoke(b_.landing_key, id, core::Deadline::after({})).code(),
              StatusCode::kPeerSilent);
  }
  for (std::uint64_t id = 1; id < kCount; ++id) revoke(b_, id);
  EXPECT_LE(rnic_->posted(IBV_WR_SEND) - before, 7U * (1 + 3)) << "a question, three answers";
  EXPECT_GE(b_.recorder.revoked, 5);
  EXPECT_EQ(a_.link->counters().copies + b_.link->counters().copies, 0U);
}

TEST_F(VerbsRevocationTest, BothSidesAtOnceFromManyThreadsWhileTheOthersWrite) {
  make(small(), 4, {}, unruly(7));
  constexpr std::uint64_t kEach = 200;
  for (std::uint64_t id = 2; id < 2 + 4 * kEach; ++id) {
    (void)a_.grant(id);
    (void)b_.grant(id);
  }
  std::atomic<int> failures{0}, running{8};
  std::vector<std::thread> threads;
  for (Side* const side : {&a_, &b_}) {
    for (std::uint64_t thread = 0; thread < 4; ++thread) {
      threads.emplace_back([&, side, thread] {
        for (std::uint64_t id = 0; id < kEach; ++id) {
          const Status status = side->link->revoke(side->landing_key, 2 + thread * kEach + id,
                                                   core::Deadline::after(kPatience));
          if (!status.ok()) ++failures;
        }
        --running;
      });
    }
  }
  const auto bytes = pattern(30'000);
  std::uint32_t sent = 0;
  while (running > 0) {  // each of them gives up by itself
    if (b_.recorder.taken.size() + 50 > sent) {
      (void)a_.write_with_notify(view_of(bytes), 0, sent, sent % 4);
      ++sent;
    }
    a_.poll();
    b_.poll();
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  EXPECT_TRUE(until([&] { return b_.recorder.taken.size() == sent; }));
}

TEST_F(VerbsRevocationTest, ACutSettlesWhoWaits) {
  for (int round = 0; round < 20; ++round) {
    make({}, 2);
    (void)b_.grant(2);
    rnic_->pause();
    Status first, second;
    std::thread waiting([&] {
      first = b_.link->revoke(b_.landing_key, kRegion, core::Deadline::after(kPatience));
    });
    std::thread other(
        [&] { second = b_.link->revoke(b_.landing_key, 2, core::Deadline::after(kPatience)); });
    if (round % 2 == 0) rnic_->resume();
    b_.link->cut(/*in_good_order=*/false);
    waiting.join();
    other.join();
    EXPECT_TRUE(first.ok()) << first.message();
    EXPECT_TRUE(second.ok()) << second.message();
    rnic_->resume();
    ASSERT_TRUE(until([&] { return a_.recorder.deaths == 1; }));
    close();
    a_ = {};
    b_ = {};
  }
}

// The memory is its owner's at once, although the peer's adapter goes on.
TEST_F(VerbsRevocationTest, BehindACutNoByteLandsEither) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    make_two({}, {}, small(), small(), 4, unruly(seed));
    const auto bytes = pattern(1 << 20);
    for (std::uint32_t i = 0; i < 16; ++i) (void)a_.write_with_notify(view_of(bytes), 0, i, i % 4);
    while (rnic_->bytes_moved() < seed * 10'000) a_.poll();
    std::atomic<bool> begun{false};
    std::thread other([&] {
      begun = true;
      b_.link->cut(/*in_good_order=*/false);
    });
    while (!begun) {
    }
    b_.link->cut(/*in_good_order=*/false);  // even while another thread does the same
    std::memset(b_.landing->base(), 0xee, kSegment);
    ASSERT_TRUE(until([&] { return a_.recorder.deaths == 1; }));
    other.join();
    EXPECT_TRUE(untouched(b_, std::byte{0xee}));
    close();
    a_ = {};
    b_ = {};
  }
}

TEST(VerbsGrantedRegionsTest, TwoThatTakeTheSameRegionBackAreBothTold) {
  for (int round = 0; round < 200; ++round) {
    std::atomic<std::uint64_t> asked{0};
    GrantedRegions granted("the peer", 1,
                           [&](std::uint64_t number, const auto&) { asked = number; });
    granted.add(1);
    Status first, second;
    std::atomic<int> begun{0};
    const auto revoke = [&](Status& into) {
      ++begun;
      into = granted.revoke(1, core::Deadline::after(kPatience));
    };
    std::thread one([&] { revoke(first); }), other([&] { revoke(second); });
    while (asked == 0 || begun < 2) std::this_thread::yield();
    EXPECT_EQ(granted.answered(asked), GrantedRegions::RevocationAnswer::kLast);
    one.join();
    other.join();
    EXPECT_TRUE(first.ok()) << first.message();
    EXPECT_TRUE(second.ok()) << second.message();
  }
}

TEST(VerbsImportedRegionsTest, RemembersWhatWasTakenBackAndForgetsTheOldest) {
  ImportedRegions imported;
  const auto window = std::make_shared<VerbsWindow>();
  ASSERT_TRUE(imported.add(1, window).ok());
  imported.revoke({1, 2});
  EXPECT_TRUE(window->revoked.load());
  EXPECT_EQ(imported.add(2, std::make_shared<VerbsWindow>()).code(),
            StatusCode::kFailedPrecondition);
  std::vector<std::uint64_t> many(1000);
  for (std::uint64_t batch = 0; batch < 70; ++batch) {
    for (std::size_t i = 0; i < many.size(); ++i) many[i] = 10 + batch * 1000 + i;
    imported.revoke(many);
  }
  EXPECT_TRUE(imported.add(2, std::make_shared<VerbsWindow>()).ok()) << "more than 65536 ago";
  EXPECT_FALSE(imported.add(70'009, std::make_shared<VerbsWindow>()).ok());
}

}  // namespace
}  // namespace farwrite::fabric::verbs
