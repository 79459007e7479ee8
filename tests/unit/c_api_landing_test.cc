// Landing memory and reads by the C ABI, on a fabric that maps and on those that do not: what the
// plug-in for TensorFlow moves tensors with.
#include <array>
#include <string>

#include "unit/c_api_on_fabric.h"

namespace {

using namespace farwrite::c_api_test;

class CAbiLanding : public CAbiOnFabric {
 protected:
  // Memory of `far` that `near` may write, and near's handle on it.
  void make(std::uint64_t bytes, fw_region** region, fw_remote** target) {
    ASSERT_EQ(code(fw_channel_allocate(far_.channel, bytes, nullptr, region)), "kOk");
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
  fw_remote* target = nullptr;
  make(64 + 100'000, &region, &target);
  ASSERT_NE(target, nullptr);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(fw_region_data(region)) % 64, 0u);
  const std::string head(64, 'h'), body(100'000, 'b');
  Outcome written;
  ASSERT_EQ(written.follow([&](fw_completion** end) {
    return fw_remote_write_notify(target, 0, head.data(), head.size(), body.data(), body.size(), 77,
                                  0, end);
  }),
            "kOk");
  ASSERT_TRUE(eventually([&] { return far_.notifications == 1; }));
  EXPECT_EQ(far_.tags, std::vector<std::uint32_t>{77});
  EXPECT_EQ(far_.messages, std::vector<std::string>{""});
  EXPECT_EQ(std::string(static_cast<char*>(fw_region_data(region)), 64 + body.size()), head + body);
  EXPECT_TRUE(eventually([&] { return written.done == 1; }));
  EXPECT_EQ(written.error, "");
  fw_remote_release(target);
  fw_region_release(region);
}

TEST_P(CAbiLanding, WhatDoesNotFitIsRefusedAndNotReported) {
  fw_region* region = nullptr;
  fw_remote* target = nullptr;
  EXPECT_EQ(code(fw_channel_allocate(far_.channel, 17 << 20, nullptr, &region)),
            "kResourceExhausted");
  EXPECT_EQ(code(fw_channel_open(near_.channel, "x", 1, kHang, &target)), "kProtocolError");
  make(128, &region, &target);
  ASSERT_NE(target, nullptr);
  const std::string body(129, 'b');
  Outcome written;
  EXPECT_EQ(written.follow([&](fw_completion** end) {
    return fw_remote_write_notify(target, 0, nullptr, 0, body.data(), body.size(), 1, 0, end);
  }),
            "kOutOfRange");
  EXPECT_EQ(written.done, 0);
  fw_remote_release(target);
  fw_region_release(region);
}

TEST_P(CAbiLanding, ARegionOutlivesItsChannel) {
  fw_region* region = nullptr;
  fw_remote* target = nullptr;
  make(4096, &region, &target);
  ASSERT_NE(target, nullptr);
  ASSERT_EQ(code(fw_channel_close(far_.channel, kHang)), "kOk");
  far_.channel = nullptr;
  static_cast<char*>(fw_region_data(region))[4095] = 'x';
  fw_region_release(region);
  fw_remote_release(target);
}

TEST_P(CAbiLanding, WhatIsLentIsReadAndComesBack) {
  constexpr std::uint64_t kBytes = 300'000;
  ASSERT_EQ(serve(far_), "kOk");
  auto* const source = static_cast<char*>(fw_device_allocate(near_.device, kBytes));
  ASSERT_NE(source, nullptr);
  for (std::uint64_t i = 0; i < kBytes; ++i) source[i] = static_cast<char>(i * 7 + i / 251);
  ASSERT_EQ(lend(source, kBytes), "kOk");
  ASSERT_TRUE(eventually([&] { return far_.notifications == 1; }));
  ASSERT_EQ(far_.views.size(), 1u);
  fw_remote* const view = far_.views[0];
  EXPECT_EQ(fw_remote_maps(view), fw_channel_maps(far_.channel));
  ASSERT_EQ(fw_remote_bytes(view), kBytes);
  std::string destination(kBytes, '?');  // any memory of the process
  Outcome read;
  ASSERT_EQ(read.follow([&](fw_completion** end) {
    return fw_remote_read(view, 0, destination.data(), kBytes, 0, end);
  }),
            "kOk");
  ASSERT_TRUE(eventually([&] { return read.done == 1; }));
  EXPECT_EQ(read.error, "");
  EXPECT_TRUE(destination == std::string(source, kBytes));
  EXPECT_EQ(near_.returned, 0u);
  fw_remote_release(view);
  far_.views.clear();
  EXPECT_TRUE(eventually([&] { return near_.returned == 1; }));
  fw_device_deallocate(near_.device, source);
}

#ifdef FARWRITE_HAVE_VERBS
class CAbiLandingHeldUp : public CAbiLanding {
 protected:
  void SetUp() override {
    open_over(rnic_, near_);
    open_over(rnic_, far_);
    connect();
  }
};

// The channel's end ends every wait at once, but an adapter that stands still may yet read.
TEST_P(CAbiLandingHeldUp, AWriteIsReportedOnlyWhenItsSourceIsNotReadAnyMore) {
  fw_region* region = nullptr;
  fw_remote* target = nullptr;
  make(100'000, &region, &target);
  ASSERT_NE(target, nullptr);
  const std::string body(100'000, 'b');
  Outcome written;
  rnic_.pause();
  EXPECT_EQ(written.follow([&](fw_completion** end) {
    return fw_remote_write_notify(target, 0, nullptr, 0, body.data(), body.size(), 1, 0, end);
  }),
            "kOk");
  std::thread closer([&] { EXPECT_NE(code(fw_channel_close(near_.channel, 100'000'000)), ""); });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_EQ(written.done, 0);
  rnic_.resume();
  closer.join();
  near_.channel = nullptr;
  EXPECT_TRUE(eventually([&] { return written.done == 1; }));
  fw_remote_release(target);
  fw_region_release(region);
}

INSTANTIATE_TEST_SUITE_P(Verbs, CAbiLandingHeldUp, testing::Values("verbs"),
                         [](const auto& param) { return std::string(param.param); });
#endif

INSTANTIATE_TEST_SUITE_P(Fabrics, CAbiLanding, testing::Values("shm", "tcp"),
                         [](const auto& param) { return std::string(param.param); });
#ifdef FARWRITE_HAVE_VERBS
// Over the software adapter, or over the machine's own if FARWRITE_TEST_VERBS is "real".
INSTANTIATE_TEST_SUITE_P(Verbs, CAbiLanding, testing::Values("verbs"),
                         [](const auto& param) { return std::string(param.param); });
#endif

}  // namespace
