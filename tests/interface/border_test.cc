// What the C++ interface does itself before it calls the C ABI.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "conformance/conformance.h"

namespace farwrite {
namespace {

using std::chrono::nanoseconds;
using namespace std::string_literals;

TEST(Border, AChannelOfNoHandleIsEmpty) {
  EXPECT_FALSE(Channel(nullptr).valid());
  EXPECT_EQ(Channel(nullptr).handle(), nullptr);
  EXPECT_EQ(Channel(nullptr), Channel());
}

TEST(Border, AServerOfABoxHasABoundedNumberOfThreads) {
  box::ServerOptions options;
  options.threads = 1025;
  EXPECT_CODE(kInvalidArgument, box::Server::serve(options).status());
}

TEST(Border, AnOptionOf0IsA0AndNotTheDefault) {
  const std::pair<const char*, std::function<void(DeviceOptions&)>> changes[] = {
      {"pollers", [](DeviceOptions& options) { options.pollers = 0; }},
      {"lanes", [](DeviceOptions& options) { options.lanes = 0; }},
      {"send_limit", [](DeviceOptions& options) { options.send_limit = 0; }},
      {"receive_limit", [](DeviceOptions& options) { options.receive_limit = 0; }},
      {"segment_bytes", [](DeviceOptions& options) { options.segment_bytes = 0; }},
      {"detection_time", [](DeviceOptions& options) { options.detection_time = nanoseconds(0); }},
      {"chunk_bytes", [](DeviceOptions& options) { options.verbs.chunk_bytes = 0; }},
      {"signal_every", [](DeviceOptions& options) { options.verbs.signal_every = 0; }},
  };
  for (const auto& [name, change] : changes) {
    DeviceOptions options;
    change(options);
    const Status refused = Device::open(options).status();
    EXPECT_CODE(kInvalidArgument, refused);
    EXPECT_THAT(refused.message(), testing::HasSubstr(name));
  }
  DeviceOptions options;
  options.spin = nanoseconds(0);
  options.prefault = false;
  EXPECT_OK(Device::open(options));
}

TEST(Border, ANegativeTimeIsRefused) {
  const std::pair<const char*, nanoseconds DeviceOptions::*> times[] = {
      {"spin", &DeviceOptions::spin},
      {"memory_idle_time", &DeviceOptions::memory_idle_time},
      {"detection_time", &DeviceOptions::detection_time},
      {"handshake_timeout", &DeviceOptions::handshake_timeout},
      {"host_timeout", &DeviceOptions::host_timeout},
  };
  for (const auto& [name, time] : times) {
    DeviceOptions options;
    options.*time = nanoseconds(-1);
    const Status refused = Device::open(options).status();
    EXPECT_CODE(kInvalidArgument, refused);
    EXPECT_THAT(refused.message(), testing::HasSubstr(name));
  }
}

TEST(Border, ATextThatTheCAbiWouldCutIsRefused) {
  const std::string cut = "a\0b"s;
  DeviceOptions named;
  named.name = cut;
  EXPECT_CODE(kInvalidArgument, Device::open(named).status());
  DeviceOptions adapter;
  adapter.verbs.device = cut;
  EXPECT_CODE(kInvalidArgument, Device::open(adapter).status());

  DeviceOptions secret;  // has its length
  secret.token = Token("one secret\0one"s);
  Result<Device> device = Device::open(secret);
  ASSERT_OK(device);
  Result<MemoryRegion> region = device->allocate(8);
  ASSERT_OK(region);
  EXPECT_CODE(kInvalidArgument, device->publish(cut, *region));
  EXPECT_CODE(kInvalidArgument, device->publish("name", *region, cut));
  EXPECT_CODE(kInvalidArgument, device->unpublish(cut));
  secret.token = Token(std::string());
  EXPECT_CODE(kInvalidArgument, Device::open(secret).status());
  secret.token = Token("one secret\0two"s);
  Result<Device> other = Device::open(secret);
  ASSERT_OK(other);
  EXPECT_CODE(kUnauthenticated, other->connect(device->endpoint(), kHang).status());
}

TEST(Border, CallsWithoutAHandleAreErrors) {
  Channel channel;
  EXPECT_CODE(kInvalidArgument, channel.notify(1).wait());
  EXPECT_CODE(kInvalidArgument, channel.flush().wait());
  EXPECT_CODE(kInvalidArgument, channel.lookup("name").status());
  EXPECT_OK(channel.close());
  Device device;
  EXPECT_CODE(kInvalidArgument, device.accept(nanoseconds(0)).status());
  EXPECT_CODE(kInvalidArgument, device.allocate(8).status());
  EXPECT_EQ(device.allocate_raw(8), nullptr);
}

TEST(Border, TwoHandlesOfOneChannelAreEqual) {
  Result<Device> device = Device::open();
  ASSERT_OK(device);
  Result<Channel> near = device->connect(device->endpoint(), kHang);
  Result<Channel> far = device->accept(kHang);
  ASSERT_OK(near);
  ASSERT_OK(far);
  EXPECT_TRUE(Channel(fw_channel_share(near->handle())) == *near);
  EXPECT_TRUE(*near != *far);
  EXPECT_TRUE(*near != Channel());
  EXPECT_TRUE(Channel() == Channel());
}

TEST(Border, WhatAHandlerHoldsGoesWithTheHandlerAndOnce) {
  Result<Device> device = Device::open();
  ASSERT_OK(device);
  Result<Channel> near = device->connect(device->endpoint(), kHang);
  ASSERT_OK(near);
  Result<Channel> far = device->accept(kHang);
  ASSERT_OK(far);
  const auto held = std::make_shared<std::atomic<int>>(0);
  ASSERT_OK(far->on_notification([held](Notification) { ++*held; }));
  EXPECT_EQ(held.use_count(), 2);
  ASSERT_OK(near->notify(1).wait(kHang));
  EXPECT_TRUE(eventually([&] { return *held == 1; }));
  ASSERT_OK(far->on_notification([](Notification) {}));
  EXPECT_EQ(held.use_count(), 1);

  // A lend that fails never tells of the lease's end, and lets go of the callback.
  const std::byte elsewhere{1};
  EXPECT_CODE(kInvalidArgument, near->lend({}, {&elsewhere, 1}, [held] { ++*held; }).wait(kHang));
  EXPECT_EQ(held.use_count(), 1);
  EXPECT_EQ(*held, 1);

  // While a handler takes the notifications, none can be waited for.
  EXPECT_CODE(kFailedPrecondition, far->wait_notification(nanoseconds(0)).status());
  ASSERT_OK(near->on_end(nullptr));
  ASSERT_OK(far->on_end([held](bool, const Status&) {}));
  ASSERT_OK(far->close(kHang));
  EXPECT_CODE(kCancelled, far->on_notification([held](Notification) {}));
  *far = Channel();
  EXPECT_TRUE(eventually([&] { return held.use_count() == 1; }));
}

}  // namespace
}  // namespace farwrite
