// Memory and notifications by the C ABI, on a fabric that maps and on those that do not.
#include <poll.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "unit/c_api_on_fabric.h"

namespace {

using namespace farwrite::c_api_test;

class CAbiMemory : public CAbiOnFabric {
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

TEST_P(CAbiMemory, HeadAndBytesLandBeforeTheirTag) {
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

TEST_P(CAbiMemory, WhatDoesNotFitIsRefusedAndNotReported) {
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

TEST_P(CAbiMemory, ARegionOutlivesItsChannel) {
  fw_region* region = nullptr;
  fw_remote* target = nullptr;
  make(4096, &region, &target);
  ASSERT_NE(target, nullptr);
  ASSERT_EQ(code(finish(far_.channel, kHang)), "kOk");
  far_.channel = nullptr;
  static_cast<char*>(fw_region_data(region))[4095] = 'x';
  fw_region_release(region);
  fw_remote_release(target);
}

TEST_P(CAbiMemory, ANamedRegionIsFoundWrittenReadAndMapped) {
  constexpr std::uint64_t kBytes = 4096;
  fw_region* region = nullptr;
  fw_remote* remote = nullptr;
  ASSERT_EQ(code(fw_channel_allocate(far_.channel, kBytes, "host", &region)), "kOk");
  EXPECT_EQ(fw_region_bytes(region), kBytes);
  auto* const landed = static_cast<char*>(fw_region_data(region));
  std::memset(landed, '-', kBytes);
  ASSERT_EQ(code(fw_channel_publish(far_.channel, "inbox", region, "of bytes")), "kOk");
  ASSERT_EQ(code(fw_channel_lookup(near_.channel, "inbox", kHang, &remote)), "kOk");
  EXPECT_EQ(fw_remote_bytes(remote), kBytes);
  EXPECT_STREQ(fw_remote_description(remote), "of bytes");
  const std::string body(100, 'b');
  Outcome written, flushed, beyond, refused;
  EXPECT_EQ(written.follow([&](fw_completion** end) {
    return fw_remote_write(remote, 8, body.data(), body.size(), 0, end);
  }),
            "kOk");
  EXPECT_EQ(
      flushed.follow([&](fw_completion** end) { return fw_channel_flush(near_.channel, end); }),
      "kOk");
  ASSERT_TRUE(eventually([&] { return flushed.done == 1; }));
  EXPECT_EQ(std::string(landed, 110), "--------" + body + "--");
  EXPECT_EQ(written.done, 1);
  EXPECT_EQ(beyond.follow([&](fw_completion** end) {
    return fw_remote_write(remote, kBytes - 99, body.data(), body.size(), 0, end);
  }),
            "kOutOfRange");
  std::string back(100, '?');
  EXPECT_EQ(refused.follow([&](fw_completion** end) {
    return fw_remote_read(remote, 8, back.data(), back.size(), 0, end);
  }),
            "kPermissionDenied")
      << "it may be written, and no more";
  EXPECT_EQ(beyond.done + refused.done, 0);
  EXPECT_EQ(code(fw_region_close(region, kHang)), "kOk");
  fw_remote_release(remote);
  fw_region_release(region);
}

TEST_P(CAbiMemory, ADevicesRegionIsReadByEveryPeerUntilItIsUnpublished) {
  constexpr std::uint64_t kBytes = 4096;
  fw_region* region = nullptr;
  fw_remote* remote = nullptr;
  ASSERT_EQ(code(fw_device_region(far_.device, kBytes, nullptr, &region)), "kOk");
  std::memset(fw_region_data(region), 'r', kBytes);
  ASSERT_EQ(code(fw_device_publish(far_.device, "model", region, nullptr)), "kOk");
  ASSERT_EQ(code(fw_channel_lookup(near_.channel, "model", kHang, &remote)), "kOk");
  std::string back(100, '?');
  fw_completion* reading = nullptr;
  ASSERT_EQ(code(fw_remote_read(remote, 50, back.data(), back.size(), 0, &reading)), "kOk");
  EXPECT_EQ(code(fw_completion_wait(reading, kHang)), "kOk");
  EXPECT_EQ(fw_completion_done(reading), 1);
  EXPECT_TRUE(eventually([&] { return fw_completion_settled(reading) == 1; }));
  fw_completion_free(reading);
  EXPECT_EQ(back, std::string(100, 'r'));
  if (fw_remote_maps(remote) == 1) {
    const void* data = nullptr;
    std::uint64_t bytes = 0;
    ASSERT_EQ(code(fw_remote_map(remote, kHang, &data, &bytes)), "kOk");
    EXPECT_EQ(std::string(static_cast<const char*>(data), bytes), std::string(kBytes, 'r'));
  }
  EXPECT_EQ(code(fw_device_unpublish(far_.device, "model")), "kOk");
  EXPECT_EQ(code(fw_device_unpublish(far_.device, "model")), "kNotFound");
  fw_remote_release(remote);
  fw_region_release(region);
  fw_registration* registration = nullptr;
  ASSERT_EQ(code(fw_device_register(near_.device, back.data(), back.size(), 1, &registration)),
            "kOk");
  EXPECT_EQ(fw_registration_has_effect(registration), std::string(GetParam()) == "verbs" ? 1 : 0);
  fw_registration_release(registration);
  registration = nullptr;
  EXPECT_EQ(code(fw_device_register(near_.device, back.data(), UINT64_MAX, 1, &registration)),
            "kInvalidArgument");
  EXPECT_EQ(registration, nullptr);
}

TEST_P(CAbiMemory, NotificationsAreTakenOneByOne) {
  int taken = 7, descriptor = -1, armed = 7;
  const auto take = [&](std::uint64_t timeout_ns) {
    return code(fw_channel_take(far_.channel, timeout_ns, End::take, &far_, &taken));
  };
  EXPECT_EQ(take(0), "kOk");
  EXPECT_EQ(taken, 0);
  EXPECT_EQ(take(1'000'000), "kOk");
  EXPECT_EQ(taken, 0) << "nothing came in time, which is no error";
  ASSERT_EQ(code(fw_channel_descriptor(far_.channel, &descriptor)), "kOk");
  ASSERT_EQ(code(fw_channel_arm(far_.channel, &armed)), "kOk");
  EXPECT_EQ(armed, 1);
  ASSERT_EQ(code(fw_channel_notify(near_.channel, 5, 0, nullptr)), "kOk");
  ASSERT_EQ(code(fw_channel_send(near_.channel, "hello", 5, 6, 0, nullptr)), "kOk");
  pollfd readable = {descriptor, POLLIN, 0};
  EXPECT_EQ(poll(&readable, 1, 30'000), 1);
  fw_channel_disarm(far_.channel);
  ASSERT_EQ(take(kHang), "kOk");
  ASSERT_EQ(taken, 1);
  ASSERT_EQ(take(kHang), "kOk");
  ASSERT_EQ(taken, 1);
  EXPECT_EQ(far_.tags, (std::vector<std::uint32_t>{5, 6}));
  EXPECT_EQ(far_.messages, (std::vector<std::string>{"", "hello"}));
  EXPECT_EQ(fw_channel_state(far_.channel), FW_PEER_ALIVE);
  ASSERT_EQ(code(finish(near_.channel, kHang)), "kOk");
  near_.channel = nullptr;
  taken = 7;
  EXPECT_EQ(take(kHang), "kUnavailable");
  EXPECT_EQ(taken, 7);
  EXPECT_EQ(fw_channel_state(far_.channel), FW_PEER_CLOSED);
}

TEST_P(CAbiMemory, WhatIsLentIsReadAndComesBack) {
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
class CAbiMemoryHeldUp : public CAbiMemory {
 protected:
  void SetUp() override {
    open_over(rnic_, near_);
    open_over(rnic_, far_);
    connect();
  }
};

// The channel's end ends every wait at once, but an adapter that stands still may yet read.
TEST_P(CAbiMemoryHeldUp, AWriteIsReportedOnlyWhenItsSourceIsNotReadAnyMore) {
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
  std::thread closer([&] { EXPECT_NE(code(finish(near_.channel, 100'000'000)), ""); });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_EQ(written.done, 0);
  rnic_.resume();
  closer.join();
  near_.channel = nullptr;
  EXPECT_TRUE(eventually([&] { return written.done == 1; }));
  fw_remote_release(target);
  fw_region_release(region);
}

INSTANTIATE_TEST_SUITE_P(Verbs, CAbiMemoryHeldUp, testing::Values("verbs"),
                         [](const auto& param) { return std::string(param.param); });
#endif

INSTANTIATE_TEST_SUITE_P(Fabrics, CAbiMemory, testing::Values("shm", "tcp"),
                         [](const auto& param) { return std::string(param.param); });
#ifdef FARWRITE_HAVE_VERBS
// Over the software adapter, or over the machine's own if FARWRITE_TEST_VERBS is "real".
INSTANTIATE_TEST_SUITE_P(Verbs, CAbiMemory, testing::Values("verbs"),
                         [](const auto& param) { return std::string(param.param); });
#endif

}  // namespace
