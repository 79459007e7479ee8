// Landing memory by the C ABI, on a fabric that maps and on one that does not.
#include <array>
#include <string>

#include "unit/c_api_fixture.h"

namespace {

using namespace farwrite::c_api_test;

struct Written {
  std::atomic<int> done{0};
  std::string error;
  static void take(void* context, const char* error) {
    auto& self = *static_cast<Written*>(context);
    if (error != nullptr) self.error = error;
    ++self.done;
  }
};

class CAbiLanding : public CAbi, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override { meet(GetParam()); }

  // Memory of `far` that `near` may write, and near's handle on it.
  void make(std::uint64_t bytes, fw_region** region, fw_target** target) {
    ASSERT_EQ(code(fw_channel_allocate(far_.channel, bytes, region)), "kOk");
    std::array<char, 1024> descriptor = {};
    const std::uint64_t length = fw_region_describe(*region, descriptor.data(), descriptor.size());
    ASSERT_LE(length, descriptor.size());
    EXPECT_EQ(fw_region_describe(*region, nullptr, 0), length);
    ASSERT_EQ(code(fw_channel_open(near_.channel, descriptor.data(), length, kHang, target)),
              "kOk");
  }
};

TEST_P(CAbiLanding, HeadAndBytesLandBeforeTheirTag) {
  EXPECT_EQ(fw_channel_maps(near_.channel), std::string(GetParam()) == "shm" ? 1 : 0);
  ASSERT_EQ(serve(far_), "kOk");
  fw_region* region = nullptr;
  fw_target* target = nullptr;
  make(64 + 100'000, &region, &target);
  ASSERT_NE(target, nullptr);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(fw_region_data(region)) % 64, 0u);
  const std::string head(64, 'h'), body(100'000, 'b');
  Written written;
  ASSERT_EQ(code(fw_target_write(target, head.data(), head.size(), body.data(), body.size(), 77, 0,
                                 Written::take, &written)),
            "kOk");
  ASSERT_TRUE(eventually([&] { return far_.notifications == 1; }));
  EXPECT_EQ(far_.tags, std::vector<std::uint32_t>{77});
  EXPECT_EQ(far_.messages, std::vector<std::string>{""});
  EXPECT_EQ(std::string(static_cast<char*>(fw_region_data(region)), 64 + body.size()), head + body);
  EXPECT_TRUE(eventually([&] { return written.done == 1; }));
  EXPECT_EQ(written.error, "");
  fw_target_release(target);
  fw_region_release(region);
}

TEST_P(CAbiLanding, WhatDoesNotFitIsRefusedAndNotReported) {
  fw_region* region = nullptr;
  fw_target* target = nullptr;
  EXPECT_EQ(code(fw_channel_allocate(far_.channel, 17 << 20, &region)), "kResourceExhausted");
  EXPECT_EQ(code(fw_channel_open(near_.channel, "x", 1, kHang, &target)), "kProtocolError");
  make(128, &region, &target);
  ASSERT_NE(target, nullptr);
  const std::string body(129, 'b');
  Written written;
  EXPECT_EQ(code(fw_target_write(target, nullptr, 0, body.data(), body.size(), 1, 0, Written::take,
                                 &written)),
            "kOutOfRange");
  EXPECT_EQ(written.done, 0);
  fw_target_release(target);
  fw_region_release(region);
}

TEST_P(CAbiLanding, ARegionOutlivesItsChannel) {
  fw_region* region = nullptr;
  fw_target* target = nullptr;
  make(4096, &region, &target);
  ASSERT_NE(target, nullptr);
  ASSERT_EQ(code(fw_channel_close(far_.channel, kHang)), "kOk");
  far_.channel = nullptr;
  static_cast<char*>(fw_region_data(region))[4095] = 'x';
  fw_region_release(region);
  fw_target_release(target);
}

INSTANTIATE_TEST_SUITE_P(Fabrics, CAbiLanding, testing::Values("shm", "tcp"),
                         [](const auto& param) { return std::string(param.param); });

}  // namespace
