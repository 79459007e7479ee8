#include "device/remote_leases.h"

#include <gtest/gtest.h>

namespace farwrite::device {
namespace {

TEST(RemoteLeases, EndOnceAndOnlyWhenNoneIsHeld) {
  RemoteLeases leases;
  EXPECT_TRUE(leases.hold());
  EXPECT_EQ(leases.held(), 1u);
  EXPECT_FALSE(leases.end());
  (void)leases.drop(7);
  EXPECT_EQ(leases.held(), 0u);
  EXPECT_TRUE(leases.end());
  EXPECT_FALSE(leases.end());
}

TEST(RemoteLeases, AreRefusedAfterTheEnd) {
  RemoteLeases quiet;
  EXPECT_TRUE(quiet.end());
  EXPECT_FALSE(quiet.hold());
  RemoteLeases held;
  EXPECT_TRUE(held.hold());
  held.end_all();
  EXPECT_FALSE(held.hold());
  EXPECT_FALSE(held.end()) << "nobody is told, because one is held";
  EXPECT_EQ(held.held(), 1u);
}

TEST(RemoteLeases, AreReturnedByOneThreadAtATime) {
  RemoteLeases leases;
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(leases.hold());
  EXPECT_TRUE(leases.drop(1)) << "the first tells the peer";
  EXPECT_FALSE(leases.drop(2)) << "and of this one, too";
  EXPECT_EQ(leases.take_dropped().leases.size(), 2u);
  EXPECT_TRUE(leases.take_dropped().leases.empty());
  EXPECT_TRUE(leases.drop(3)) << "its turn is over";
}

TEST(RemoteLeases, AreReturnedInRecordsOfBoundedLength) {
  RemoteLeases leases;
  for (std::size_t i = 0; i <= ReturnRecord::kMaxLeases; ++i) {
    EXPECT_TRUE(leases.hold());
    (void)leases.drop(i + 1);
  }
  EXPECT_EQ(leases.take_dropped().leases.size(), ReturnRecord::kMaxLeases);
  EXPECT_EQ(leases.take_dropped().leases.size(), 1u);
}

}  // namespace
}  // namespace farwrite::device
