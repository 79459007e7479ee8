#include "device/lease_table.h"

#include <atomic>
#include <thread>
#include <vector>

#include "unit/region_fixture.h"

namespace farwrite::device {
namespace {

constexpr std::uint64_t kLimit = 4 * 4096;

class Leases : public WithRegions {
 protected:
  std::uint64_t grant() { return leases_.grant(make_region(), "peer:1").value(); }
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
  const Status refused = leases_.grant(make_region(64), "peer:1").status();
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  for (const char* word : {"peer:1", "16384 of 16384", "4 leases", "send_limit_per_peer"}) {
    EXPECT_NE(refused.message().find(word), std::string::npos) << refused.message();
  }
  EXPECT_EQ(leases_.granted(), 4u);
  leases_.release(held[2]);
  EXPECT_TRUE(leases_.grant(make_region(64), "peer:1").ok());
  leases_.release_all();
  EXPECT_EQ(leases_.granted(), leases_.released());
  for (int i = 0; i < 4; ++i) grant();
}

TEST_F(Leases, OfADeadPeerAllReturnAndNoneFollow) {
  grant();
  grant();
  leases_.close();
  EXPECT_EQ(leases_.held(), 0u);
  EXPECT_EQ(leases_.released(), 2u);
  EXPECT_EQ(used(), 0u);
  EXPECT_FALSE(leases_.grant(make_region(), "peer:1").ok());
  EXPECT_EQ(leases_.granted(), leases_.released());
}

TEST_F(Leases, BalanceUnderManyThreads) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 500; ++round) {
        const auto lease = leases_.grant(make_region(), "peer:1");
        if (round % 50 == 0) leases_.release_all();
        if (lease.ok()) leases_.release(lease.value());
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
