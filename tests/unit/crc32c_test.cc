// The checksums of RFC 3720, B.4, by each way to compute them.
#include "box/crc32c.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "unit/damage.h"

namespace farwrite::box {
namespace {

using Sum = std::uint32_t (*)(ByteView, std::uint32_t);

// The instruction only where the processor has it; the table stands in for it elsewhere.
std::vector<Sum> every_way() {
  std::vector<Sum> ways = {crc32c, crc32c_by_table};
  if (has_crc32c_instruction()) ways.push_back(crc32c_by_instruction);
  return ways;
}

std::vector<std::byte> counted(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i);
  return bytes;
}

TEST(Crc32c, MatchesThePublishedExamples) {
  const std::vector<std::byte> zeros(32), ones(32, std::byte{0xff}), up = counted(32);
  const std::vector<std::byte> down(up.rbegin(), up.rend());
  std::vector<std::byte> command(48);  // "iSCSI - SCSI Read (10) Command PDU"
  command[0] = std::byte{0x01};
  command[1] = std::byte{0xc0};
  command[16] = std::byte{0x14};
  command[22] = std::byte{0x04};
  command[27] = std::byte{0x14};
  command[31] = std::byte{0x18};
  command[32] = std::byte{0x28};
  command[40] = std::byte{0x02};
  for (const Sum sum : every_way()) {
    EXPECT_EQ(sum({"123456789", 9}, 0), 0xe3069283u);
    EXPECT_EQ(sum(view_of(zeros), 0), 0x8a9136aau);
    EXPECT_EQ(sum(view_of(ones), 0), 0x62a8ab43u);
    EXPECT_EQ(sum(view_of(up), 0), 0x46dd794eu);
    EXPECT_EQ(sum(view_of(down), 0), 0x113fdb5cu);
    EXPECT_EQ(sum(view_of(command), 0), 0xd9963a56u);
  }
}

TEST(Crc32c, OfNoBytesIsThatOfTheBytesBefore) {
  for (const Sum sum : every_way()) {
    EXPECT_EQ(sum({}, 0), 0u);
    EXPECT_EQ(sum({}, 0xe3069283u), 0xe3069283u);
  }
}

TEST(Crc32c, OfAStreamDoesNotDependOnItsPieces) {
  const std::vector<std::byte> bytes = counted(67);
  const std::uint32_t whole = crc32c_by_table(view_of(bytes), 0);
  for (const Sum sum : every_way()) {
    for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
      const std::uint32_t front = sum({bytes.data(), cut}, 0);
      EXPECT_EQ(sum({bytes.data() + cut, bytes.size() - cut}, front), whole) << cut;
    }
  }
}

TEST(Crc32c, IsTheSameByEveryWayAtEveryLengthAndAlignment) {
  const std::vector<std::byte> bytes = counted(600);
  for (const Sum sum : every_way()) {
    for (std::size_t from = 0; from < 8; ++from) {
      for (std::size_t size = 0; size < 64; ++size) {
        const ByteView view(bytes.data() + from, size * 9);
        EXPECT_EQ(sum(view, 7), crc32c_by_table(view, 7)) << from << ", " << size;
      }
    }
  }
}

}  // namespace
}  // namespace farwrite::box
