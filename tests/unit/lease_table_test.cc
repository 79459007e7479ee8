#include "device/lease_table.h"

#include <atomic>
#include <thread>
#include <vector>

#include "unit/region_fixture.h"

namespace farwrite::device {
namespace {

constexpr std::uint64_t kLimit = 4 * 4096;
constexpr LeasedRange kRange = {.key = 1, .offset = 0, .bytes = 4096};

class Leases : public WithRegions {
 protected:
  std::uint64_t grant() { return leases_.grant(make_region(), kRange, "peer:1").value(); }
  LeaseTable leases_{kLimit};
};

TEST_F(Leases, KeepTheRegionFromBeingReused) {
  const std::uint64_t lease = grant();
  EXPECT_NE(lease, 0u) << "0 means that a region needs no lease";
  EXPECT_GT(used(), 0u) << "the region's handle is gone, the lease is not";
  leases_.release(lease);
  EXPECT_EQ(used(), 0u);
}

TEST_F(Leases, AreCountedAndBalance) {
  const std::uint64_t first = grant();
  const std::uint64_t second = grant();
  EXPECT_NE(first, second);
  EXPECT_EQ(leases_.held(), 2u);
  leases_.release(first);
  EXPECT_EQ(leases_.granted(), 2u);
  EXPECT_EQ(leases_.released(), 1u);
  EXPECT_EQ(leases_.held(), 1u);
  leases_.release(second);
  EXPECT_EQ(leases_.granted(), leases_.released());
}

TEST_F(Leases, AreReleasedOnce) {
  const std::uint64_t lease = grant();
  const std::uint64_t other = grant();
  leases_.release(lease);
  leases_.release(lease);
  leases_.release(0);
  leases_.release(12345);
  EXPECT_EQ(leases_.released(), 1u);
  EXPECT_EQ(leases_.held(), 1u);
  EXPECT_GT(used(), 0u);
  leases_.release(other);
}

TEST_F(Leases, OverTheQuotaAreRefusedWithARemedyUntilSomeReturn) {
  std::vector<std::uint64_t> held;
  for (int i = 0; i < 4; ++i) held.push_back(grant());
  const Status refused = leases_.grant(make_region(64), {.bytes = 64}, "peer:1").status();
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  for (const char* word : {"peer:1", "16384 of 16384", "4 leases", "send_limit_per_peer"}) {
    EXPECT_NE(refused.message().find(word), std::string::npos) << refused.message();
  }
  EXPECT_EQ(leases_.granted(), 4u);
  leases_.release(held[2]);
  EXPECT_TRUE(leases_.grant(make_region(64), {.bytes = 64}, "peer:1").ok());
  for (std::uint64_t lease = 1; lease <= 5; ++lease) leases_.release(lease);
  EXPECT_EQ(leases_.granted(), leases_.released());
  for (int i = 0; i < 4; ++i) grant();
}

TEST_F(Leases, OfLentMemoryTellTheLenderOnce) {
  int returned = 0;
  const auto count = [&] {
    ++returned;
    EXPECT_LT(leases_.held(), 3u) << "the table must not be locked meanwhile";
  };
  const std::uint64_t first = leases_.lend({.bytes = kLimit / 2}, count, "peer:1").value();
  const std::uint64_t second = leases_.lend({.bytes = kLimit / 2}, count, "peer:1").value();
  EXPECT_EQ(leases_.lend({.bytes = 1}, count, "peer:1").status().code(),
            StatusCode::kResourceExhausted);
  leases_.release(first);
  leases_.release(first);
  EXPECT_EQ(returned, 1);
  leases_.close();
  leases_.release(second);
  EXPECT_EQ(returned, 2);
  EXPECT_FALSE(leases_.lend({.bytes = 1}, count, "peer:1").ok());
  EXPECT_EQ(returned, 2);
  EXPECT_EQ(leases_.granted(), leases_.released());
}

TEST_F(Leases, WithdrawnAreAsIfTheyHadNotBeen) {
  bool returned = false;
  const std::uint64_t lease =
      leases_.lend({.bytes = kLimit}, [&] { returned = true; }, "peer:1").value();
  EXPECT_TRUE(leases_.withdraw(lease));
  EXPECT_FALSE(leases_.withdraw(lease));
  leases_.release(lease);
  EXPECT_FALSE(returned);
  EXPECT_EQ(leases_.granted(), 0u);
  EXPECT_EQ(leases_.released(), 0u);
  const std::uint64_t next =
      leases_.lend({.bytes = kLimit}, [&] { returned = true; }, "peer:1").value();
  EXPECT_NE(next, lease) << "a late return must not end another lease";
  leases_.close();
  EXPECT_FALSE(leases_.withdraw(next));
  EXPECT_TRUE(returned);
}

TEST_F(Leases, OfADeadPeerAllReturnAndNoneFollow) {
  grant();
  grant();
  leases_.close();
  EXPECT_EQ(leases_.held(), 0u);
  EXPECT_EQ(leases_.released(), 2u);
  EXPECT_EQ(used(), 0u);
  EXPECT_FALSE(leases_.grant(make_region(), kRange, "peer:1").ok());
  EXPECT_EQ(leases_.granted(), leases_.released());
}

TEST_F(Leases, CoverTheirBytesAndNoOthers) {
  leases_.remember_ranges();
  const auto lend = [&](const LeasedRange& range) {
    return leases_.lend(range, [] {}, "peer:1").value();
  };
  EXPECT_FALSE(leases_.covers({.key = 1, .offset = 0, .bytes = 1}));
  const std::uint64_t wide = lend({.key = 1, .offset = 100, .bytes = 1000});
  const std::uint64_t inner = lend({.key = 1, .offset = 200, .bytes = 10});
  const std::uint64_t again = lend({.key = 1, .offset = 200, .bytes = 10});
  const std::uint64_t beside = lend({.key = 1, .offset = 1100, .bytes = 100});
  EXPECT_TRUE(leases_.covers({.key = 1, .offset = 100, .bytes = 1000}));
  EXPECT_TRUE(leases_.covers({.key = 1, .offset = 150, .bytes = 1}));
  EXPECT_TRUE(leases_.covers({.key = 1, .offset = 205, .bytes = 100})) << "behind a shorter one";
  EXPECT_TRUE(leases_.covers({.key = 1, .offset = 1199, .bytes = 1}));
  EXPECT_FALSE(leases_.covers({.key = 1, .offset = 99, .bytes = 2}));
  EXPECT_FALSE(leases_.covers({.key = 1, .offset = 1099, .bytes = 2})) << "of two leases";
  EXPECT_FALSE(leases_.covers({.key = 1, .offset = 1199, .bytes = 2}));
  EXPECT_FALSE(leases_.covers({.key = 1, .offset = 150, .bytes = UINT64_MAX}));
  EXPECT_FALSE(leases_.covers({.key = 1, .offset = UINT64_MAX, .bytes = 1}));
  EXPECT_FALSE(leases_.covers({.key = 0, .offset = 100, .bytes = 1}));
  EXPECT_FALSE(leases_.covers({.key = 2, .offset = 100, .bytes = 1}));
  leases_.release(wide);
  EXPECT_FALSE(leases_.covers({.key = 1, .offset = 150, .bytes = 1}));
  leases_.release(inner);
  EXPECT_TRUE(leases_.covers({.key = 1, .offset = 200, .bytes = 10})) << "it was leased twice";
  EXPECT_TRUE(leases_.withdraw(again));
  EXPECT_FALSE(leases_.covers({.key = 1, .offset = 200, .bytes = 10}));
  EXPECT_TRUE(leases_.covers({.key = 1, .offset = 1100, .bytes = 100}));
  leases_.close();
  leases_.release(beside);
  EXPECT_FALSE(leases_.covers({.key = 1, .offset = 1100, .bytes = 100}));
}

TEST_F(Leases, BalanceUnderManyThreads) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 500; ++round) {
        const auto lease = leases_.grant(make_region(), kRange, "peer:1");
        if (!lease.ok()) continue;
        leases_.release(lease.value());
        leases_.release(lease.value());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(leases_.granted(), leases_.released());
  EXPECT_EQ(leases_.held(), 0u);
  EXPECT_EQ(used(), 0u);
  for (int i = 0; i < 4; ++i) grant();  // the quota balances, too
}

}  // namespace
}  // namespace farwrite::device
