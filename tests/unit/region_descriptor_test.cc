#include <gtest/gtest.h>

#include <limits>

#include "core/region.h"
#include "core/wire.h"
#include "unit/damage.h"

namespace farwrite {
namespace {

RegionDescriptor some_descriptor() {
  RegionDescriptor descriptor;
  for (std::size_t i = 0; i < descriptor.device_uuid.size(); ++i) {
    descriptor.device_uuid[i] = static_cast<std::uint8_t>(i + 1);
  }
  descriptor.epoch = 0x1122334455667788;
  descriptor.region_id = 5;
  descriptor.offset = 64;
  descriptor.length = 4096;
  descriptor.access = Access::kWrite;
  descriptor.keys = {{FabricKind::kShm, 77}, {FabricKind::kTcp, 78}};
  return descriptor;
}

StatusCode code_of(const std::vector<std::byte>& bytes) {
  return RegionDescriptor::from_bytes(view_of(bytes)).status().code();
}

TEST(RegionDescriptor, ReadsWhatItWrites) {
  const RegionDescriptor written = some_descriptor();
  const RegionDescriptor read = RegionDescriptor::from_bytes(view_of(written.to_bytes())).value();
  EXPECT_EQ(read.device_uuid, written.device_uuid);
  EXPECT_EQ(read.epoch, written.epoch);
  EXPECT_EQ(read.region_id, written.region_id);
  EXPECT_EQ(read.offset, written.offset);
  EXPECT_EQ(read.length, written.length);
  EXPECT_EQ(read.access, written.access);
  ASSERT_EQ(read.keys.size(), 2u);
  EXPECT_EQ(read.keys[1].fabric, FabricKind::kTcp);
  EXPECT_EQ(read.keys[1].key, 78u);
  EXPECT_EQ(read.to_bytes(), written.to_bytes());
}

TEST(RegionDescriptor, KeepsItsWireForm) {
  const std::vector<std::byte> bytes = some_descriptor().to_bytes();
  ASSERT_EQ(bytes.size(), RegionDescriptor::kPrefixBytes + 2 * 20);
  EXPECT_EQ(bytes[0], std::byte{1});      // version
  EXPECT_EQ(bytes[2], std::byte{40});     // tail length
  EXPECT_EQ(bytes[4], std::byte{2});      // access
  EXPECT_EQ(bytes[8], std::byte{1});      // uuid
  EXPECT_EQ(bytes[24], std::byte{0x88});  // epoch, little-endian
  EXPECT_EQ(bytes[31], std::byte{0x11});
  EXPECT_EQ(bytes[32], std::byte{5});   // region id
  EXPECT_EQ(bytes[40], std::byte{64});  // offset
  EXPECT_EQ(bytes[49], std::byte{16});  // length 4096
  EXPECT_EQ(bytes[56], std::byte{1});   // record type
  EXPECT_EQ(bytes[58], std::byte{16});  // record length
  EXPECT_EQ(bytes[60], std::byte{1});   // shm
  EXPECT_EQ(bytes[68], std::byte{77});  // key
}

TEST(RegionDescriptor, NamesTheGpuThatHasTheMemory) {
  RegionDescriptor written = some_descriptor();
  EXPECT_FALSE(RegionDescriptor::from_bytes(view_of(written.to_bytes())).value().gpu.has_value());
  written.gpu.emplace().fill(9);
  std::vector<std::byte> bytes = written.to_bytes();
  ASSERT_EQ(bytes.size(), RegionDescriptor::kPrefixBytes + 3 * 20);
  const RegionDescriptor read = RegionDescriptor::from_bytes(view_of(bytes)).value();
  EXPECT_EQ(read.gpu, written.gpu);
  EXPECT_EQ(read.keys.size(), 2u);
  bytes[RegionDescriptor::kPrefixBytes + 2 * 20 + 2] = std::byte{15};  // a short record
  EXPECT_EQ(code_of(bytes), StatusCode::kProtocolError);
}

TEST(RegionDescriptor, RefusesAnUnknownVersionNamingBoth) {
  std::vector<std::byte> bytes = some_descriptor().to_bytes();
  bytes[0] = std::byte{9};
  const Status status = RegionDescriptor::from_bytes(view_of(bytes)).status();
  EXPECT_EQ(status.code(), StatusCode::kVersionMismatch);
  EXPECT_NE(status.message().find("version is 9"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("supports 1"), std::string::npos) << status.message();
}

TEST(RegionDescriptor, SkipsRecordsItDoesNotKnow) {
  std::vector<std::byte> bytes = some_descriptor().to_bytes();
  core::WireWriter record;
  record.u16(400);
  record.u16(3);
  record.bytes({"abc", 3});
  bytes.insert(bytes.begin() + 56, record.buffer().begin(), record.buffer().end());
  bytes[2] = std::byte{47};
  const auto read = RegionDescriptor::from_bytes(view_of(bytes));
  ASSERT_TRUE(read.ok()) << read.status().to_string();
  EXPECT_EQ(read.value().keys.size(), 2u);
}

TEST(RegionDescriptor, RefusesWhatIsMalformed) {
  const std::vector<std::byte> good = some_descriptor().to_bytes();
  expect_truncations_refused(good, RegionDescriptor::from_bytes);
  survive_noise(good, RegionDescriptor::from_bytes);
  std::vector<std::byte> longer = good;
  longer.push_back(std::byte{0});
  EXPECT_EQ(code_of(longer), StatusCode::kProtocolError);
  longer.resize(RegionDescriptor::kMaxBytes + 1);
  EXPECT_EQ(code_of(longer), StatusCode::kProtocolError);
  for (const int access : {0, 3, 255}) {
    std::vector<std::byte> bytes = good;
    bytes[4] = static_cast<std::byte>(access);
    EXPECT_EQ(code_of(bytes), StatusCode::kProtocolError) << access;
  }
  RegionDescriptor wrapping = some_descriptor();
  wrapping.offset = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ(code_of(wrapping.to_bytes()), StatusCode::kProtocolError);
  std::vector<std::byte> record_past_tail = good;
  record_past_tail[58 + 20] = std::byte{200};
  EXPECT_EQ(code_of(record_past_tail), StatusCode::kProtocolError);
  std::vector<std::byte> short_key = good;
  short_key[58] = std::byte{8};
  EXPECT_EQ(code_of(short_key), StatusCode::kProtocolError);
}

}  // namespace
}  // namespace farwrite
