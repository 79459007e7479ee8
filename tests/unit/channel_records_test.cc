#include "device/channel_records.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace farwrite::device {
namespace {

ByteView view(const std::vector<std::byte>& bytes) { return {bytes.data(), bytes.size()}; }

std::vector<std::byte> lend_bytes() {
  LendRecord lend;
  lend.lease = 0x1122334455667788;
  lend.key = 2;
  lend.offset = 3;
  lend.length = 4;
  std::vector<std::byte> record;
  lend.write({"abc", 3}, record);
  return record;
}

TEST(ChannelRecords, ALendComesBackAsItWent) {
  const std::vector<std::byte> record = lend_bytes();
  ASSERT_EQ(record.size(), LendRecord::kHeaderBytes + 3);
  EXPECT_EQ(std::memcmp(record.data() + LendRecord::kHeaderBytes, "abc", 3), 0);
  const auto lend = LendRecord::from_bytes(view(record));
  ASSERT_TRUE(lend.ok()) << lend.status().to_string();
  EXPECT_EQ(lend.value().lease, 0x1122334455667788u);
  EXPECT_EQ(lend.value().key, 2u);
  EXPECT_EQ(lend.value().offset, 3u);
  EXPECT_EQ(lend.value().length, 4u);
}

TEST(ChannelRecords, ALendHasAStableByteOrder) {
  const std::vector<std::byte> record = lend_bytes();
  EXPECT_EQ(record[0], std::byte{1});
  EXPECT_EQ(record[8], std::byte{0x88});
  EXPECT_EQ(record[15], std::byte{0x11});
  EXPECT_EQ(record[16], std::byte{2});
  EXPECT_EQ(record[24], std::byte{3});
  EXPECT_EQ(record[32], std::byte{4});
}

TEST(ChannelRecords, ATruncatedOrForgedLendIsRefused) {
  const std::vector<std::byte> record = lend_bytes();
  for (std::size_t size = 0; size < LendRecord::kHeaderBytes; ++size) {
    EXPECT_EQ(LendRecord::from_bytes({record.data(), size}).status().code(),
              StatusCode::kProtocolError)
        << size;
  }
  std::vector<std::byte> unleased = record;
  std::memset(unleased.data() + 8, 0, 8);
  EXPECT_FALSE(LendRecord::from_bytes(view(unleased)).ok());
  std::vector<std::byte> unknown = record;
  unknown[1] = std::byte{9};
  EXPECT_FALSE(LendRecord::from_bytes(view(unknown)).ok());
}

TEST(ChannelRecords, ReturnsComeBackAsTheyWent) {
  for (const std::size_t count : {std::size_t{1}, std::size_t{5}, ReturnRecord::kMaxLeases}) {
    ReturnRecord sent;
    for (std::uint64_t i = 0; i < count; ++i) sent.leases.push_back(i * 1'000'000'007);
    std::vector<std::byte> record;
    sent.write(record);
    const auto seen = ReturnRecord::from_bytes(view(record));
    ASSERT_TRUE(seen.ok()) << seen.status().to_string();
    EXPECT_EQ(seen.value().leases, sent.leases);
  }
}

TEST(ChannelRecords, AMalformedReturnIsRefused) {
  ReturnRecord sent;
  sent.leases.assign(ReturnRecord::kMaxLeases + 1, 1);
  std::vector<std::byte> record;
  sent.write(record);
  EXPECT_FALSE(ReturnRecord::from_bytes(view(record)).ok()) << "too many";
  for (const std::size_t size : {0, 1, 8, 15, 17, 23}) {
    EXPECT_FALSE(ReturnRecord::from_bytes({record.data(), size}).ok()) << size;
  }
  EXPECT_FALSE(ReturnRecord::from_bytes(view(lend_bytes())).ok());
}

}  // namespace
}  // namespace farwrite::device
