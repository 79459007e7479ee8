// The C ABI between two devices of one process.
#include <atomic>
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "unit/c_api_fixture.h"

extern "C" int farwrite_test_c_header(void);

namespace {

using namespace farwrite::c_api_test;

TEST(CAbiHeader, IsPlainC) { EXPECT_EQ(farwrite_test_c_header(), 0); }

TEST(CAbiHeader, AShorterStructOfAnEarlierHeaderIsUnderstood) {
  struct Earlier {
    std::size_t struct_size;
    const char* listen;
  } options = {sizeof(Earlier), "127.0.0.1:0"};
  fw_device* device = nullptr;
  ASSERT_EQ(code(fw_device_open(reinterpret_cast<fw_device_options*>(&options), &device)), "kOk");
  EXPECT_EQ(code(finish(device, kHang)), "kOk");
}

// A size that was forgotten would select every default in silence.
TEST(CAbiHeader, AStructWithoutItsSizeIsRefused) {
  fw_device_options options = {};
  options.listen = "127.0.0.1:0";
  fw_device* device = nullptr;
  // Of none, and in the middle of a pointer.
  for (const std::size_t size : {std::size_t{0}, std::size_t{4}, std::size_t{12}}) {
    options.struct_size = size;
    fw_status* const status = fw_device_open(&options, &device);
    EXPECT_NE(std::string(fw_status_message(status)).find("set it to sizeof(fw_device_options)"),
              std::string::npos);
    EXPECT_EQ(fw_status_code(status), FW_ERROR_INVALID_ARGUMENT);
    fw_status_free(status);
  }
  options.struct_size = sizeof(options);
  options.data_port = 70'000;
  EXPECT_EQ(code(fw_device_open(&options, &device)), "kInvalidArgument");
  EXPECT_EQ(device, nullptr);
}

TEST_F(CAbi, TellsWhoIsWho) {
  fw_identity self = {};
  self.struct_size = sizeof(self);
  fw_device_identity(far_.device, &self);
  fw_peer_info seen = {};
  seen.struct_size = sizeof(seen);
  fw_channel_peer_info(near_.channel, &seen);
  EXPECT_EQ(std::memcmp(self.uuid, seen.identity.uuid, sizeof(self.uuid)), 0);
  EXPECT_EQ(self.epoch, seen.identity.epoch);
  EXPECT_STREQ(self.endpoint, seen.identity.endpoint);
  EXPECT_STREQ(seen.name, "");
  EXPECT_STREQ(seen.service, "");
  EXPECT_STREQ(seen.fabric, "shm");
  EXPECT_STRNE(seen.fabric_reason, "");
  EXPECT_EQ(seen.lanes, 1u);
  EXPECT_EQ(seen.encrypted, 0u);
  EXPECT_GE(fw_channel_max_message_bytes(near_.channel), 4096u);
  EXPECT_NE(std::string(fw_version()), "");
}

// A program that was built with another header knows fewer fields, or more.
TEST_F(CAbi, FillsNoMoreOfAStructThanItsSize) {
  fw_identity shorter = {};
  shorter.struct_size = offsetof(fw_identity, endpoint);
  std::strcpy(shorter.endpoint, "not its own");
  fw_device_identity(far_.device, &shorter);
  EXPECT_NE(shorter.epoch, 0u);
  EXPECT_STREQ(shorter.endpoint, "not its own");
  struct Longer {
    fw_memory_stats known;
    std::uint64_t more;
  } longer = {{}, 7};
  longer.known.struct_size = sizeof(longer);
  fw_device_memory(near_.device, &longer.known);
  EXPECT_EQ(longer.known.limit, 16u << 20);
  EXPECT_EQ(longer.known.struct_size, sizeof(longer));
  EXPECT_EQ(longer.more, 7u);
}

TEST_F(CAbi, AcceptsEveryKindOfToken) {
  End without, peer;
  without.open("");
  peer.open("");
  fw_identity identity = {};
  identity.struct_size = sizeof(identity);
  fw_device_identity(peer.device, &identity);
  fw_channel* channel = nullptr;
  EXPECT_EQ(code(fw_device_connect(near_.device, identity.endpoint, kHang, &channel)),
            "kUnauthenticated");
  ASSERT_EQ(code(fw_device_connect(without.device, identity.endpoint, kHang, &channel)), "kOk");
  EXPECT_EQ(code(finish(channel, kHang)), "kOk");
  EXPECT_EQ(code(finish(without.device, kHang)), "kOk");
  EXPECT_EQ(code(finish(peer.device, kHang)), "kOk");
  fw_device_options options = {};
  options.struct_size = sizeof(options);
  options.listen = "0.0.0.0:0";
  fw_device* device = nullptr;
  EXPECT_EQ(code(fw_device_open(&options, &device)), "kUnauthenticated");
  options.open_elsewhere = 1;
  ASSERT_EQ(code(fw_device_open(&options, &device)), "kOk");
  EXPECT_EQ(code(finish(device, kHang)), "kOk");
}

TEST_F(CAbi, AnEngineThatIsRefusedLeavesTheChannelAsItWas) {
  struct Seen {
    fw_channel* channel;
    std::atomic<int> refused{0};
  } seen{far_.channel};
  const fw_handler serves = [](void* context, const fw_notification*) {
    auto& self = *static_cast<Seen*>(context);
    fw_tensor_handlers all = {};
    all.struct_size = sizeof(all);
    all.on_message = [](void*, const fw_notification*) {};
    all.on_end = [](void*, int, const fw_status*) {};
    all.on_landing = [](void*, const fw_landing* landing) { fw_landed_release(landing->landed); };
    all.on_slot = [](int) {};
    all.run_later = [](std::uint64_t, void (*)(void*), void*) {};
    EXPECT_EQ(code(fw_channel_serve_tensors(self.channel, &all, nullptr)), "kFailedPrecondition");
    EXPECT_EQ(code(fw_channel_notify(self.channel, 7, 0, nullptr)), "kOk") << "there is no engine";
    ++self.refused;
  };
  ASSERT_EQ(code(fw_channel_serve(far_.channel, serves, nullptr, &seen)), "kOk");
  ASSERT_EQ(serve(near_), "kOk");
  for (std::uint32_t round = 1; round <= 2; ++round) {
    ASSERT_EQ(code(fw_channel_send(near_.channel, "m", 1, 0, 0, nullptr)), "kOk");
    ASSERT_TRUE(eventually([&] { return seen.refused == static_cast<int>(round); }));
  }
  ASSERT_TRUE(eventually([&] { return near_.notifications == 2; }));
  EXPECT_EQ(near_.tags, (std::vector<std::uint32_t>{7, 7}));
  EXPECT_EQ(code(finish(far_.channel, kHang)), "kOk");  // the context lives here
  far_.channel = nullptr;
}

TEST_F(CAbi, AnotherDevicesChannelIsRefused) {
  fw_sender* sender = nullptr;
  fw_streams* streams = nullptr;
  EXPECT_EQ(code(fw_sender_open(far_.device, near_.channel, "edge", 0, &sender)),
            "kInvalidArgument");
  EXPECT_EQ(code(fw_streams_create(near_.device, far_.channel, nullptr, &streams)),
            "kInvalidArgument");
  EXPECT_EQ(sender, nullptr);
  EXPECT_EQ(streams, nullptr);
}

TEST_F(CAbi, RefusesToCloseInsideACallbackAndThenNothingHasChanged) {
  struct Seen {
    End* end;
    std::atomic<int> refused{0};
  } seen{&far_};
  const fw_handler closes = [](void* context, const fw_notification*) {
    auto& self = *static_cast<Seen*>(context);
    EXPECT_EQ(code(fw_channel_close(self.end->channel, kHang)), "kFailedPrecondition");
    EXPECT_EQ(code(fw_device_close(self.end->device, kHang)), "kFailedPrecondition");
    ++self.refused;
  };
  ASSERT_EQ(code(fw_channel_serve(far_.channel, closes, nullptr, &seen)), "kOk");
  for (int round = 1; round <= 2; ++round) {
    ASSERT_EQ(code(fw_channel_send(near_.channel, "m", 1, 0, 0, nullptr)), "kOk");
    ASSERT_TRUE(eventually([&] { return seen.refused == round; }));
  }
  ASSERT_EQ(code(fw_channel_send(far_.channel, "m", 1, 0, 0, nullptr)), "kOk");
  // Closed by hand: the context lives here. TearDown closes the device.
  EXPECT_EQ(code(finish(far_.channel, kHang)), "kOk");
  far_.channel = nullptr;
}

TEST_F(CAbi, AThreadEndsItsOwnWaitsAndNoOther) {
  int asked = 0;
  const auto third_time = [](void* context) { return ++*static_cast<int*>(context) == 3 ? 1 : 0; };
  auto other = std::async(std::launch::async, [&] {
    fw_remote* remote = nullptr;
    return code(fw_channel_lookup(near_.channel, "other", kHang, &remote));
  });
  fw_set_interrupt(third_time, &asked);
  fw_remote* remote = nullptr;
  // A last question may still be answered: that there is no such name.
  EXPECT_THAT(code(fw_channel_lookup(near_.channel, "nothing", kHang, &remote)),
              testing::AnyOf("kDeadlineExceeded", "kNotFound"));
  EXPECT_EQ(remote, nullptr);
  EXPECT_EQ(asked, 3);
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_NE(code(fw_channel_lookup(near_.channel, "nothing", kHang, &remote)), "kOk");
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::nanoseconds(kHang / 2));
  EXPECT_EQ(asked, 3) << "it waits no more";
  fw_set_interrupt(nullptr, nullptr);
  EXPECT_THAT(code(fw_channel_lookup(near_.channel, "nothing", 300'000'000, &remote)),
              testing::AnyOf("kDeadlineExceeded", "kNotFound"));
  EXPECT_EQ(asked, 3) << "it is not asked any more";
  EXPECT_EQ(other.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  EXPECT_EQ(code(fw_channel_close(near_.channel, kHang)), "kOk");
  EXPECT_EQ(other.get(), "kCancelled");
}

TEST_F(CAbi, AThreadEndsItsOwnConnect) {
  int asked = 0;
  fw_set_interrupt([](void* context) { return ++*static_cast<int*>(context) == 2 ? 1 : 0; },
                   &asked);
  fw_channel* channel = nullptr;
  EXPECT_NE(code(fw_device_connect(near_.device, "127.0.0.1:1", kHang, &channel)), "kOk");
  EXPECT_EQ(channel, nullptr);
  EXPECT_EQ(asked, 2);
  fw_set_interrupt(nullptr, nullptr);
}

TEST_F(CAbi, CopiesBytesOfAnySize) {
  fw_copy(nullptr, "x", 1);
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{4097}, (std::size_t{3} << 20) + 5}) {
    std::string source(bytes, 'x');
    source.back() = 'y';
    std::string copy(bytes + 1, '-');
    fw_copy(copy.data(), source.data(), bytes);
    EXPECT_EQ(copy, source + "-");
  }
}

TEST_F(CAbi, AllocatesSendMemoryWithinItsLimit) {
  void* const memory = fw_device_allocate(near_.device, 1000);
  ASSERT_NE(memory, nullptr);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 64, 0u);
  EXPECT_TRUE(fw_device_contains(near_.device, memory));
  EXPECT_FALSE(fw_device_contains(far_.device, memory));
  fw_memory_stats stats = {};
  stats.struct_size = sizeof(stats);
  fw_device_memory(near_.device, &stats);
  EXPECT_EQ(stats.limit, 16u << 20);
  EXPECT_GE(stats.used, 1000u);
  EXPECT_EQ(stats.segments, 1u);
  EXPECT_EQ(fw_device_allocate(near_.device, 17 << 20), nullptr);
  fw_device_deallocate(near_.device, memory);
  fw_device_memory(near_.device, &stats);
  EXPECT_EQ(stats.used, 0u);
}

TEST_F(CAbi, SendsAndLends) {
  ASSERT_EQ(serve(far_), "kOk");
  ASSERT_EQ(code(fw_channel_send(near_.channel, "hello", 5, 1, 0, nullptr)), "kOk");
  auto* const memory = static_cast<char*>(fw_device_allocate(near_.device, 4096));
  std::memset(memory, 'x', 4096);
  ASSERT_EQ(lend(memory, 4096, "lent"), "kOk");
  ASSERT_TRUE(eventually([&] { return far_.notifications == 2; }));
  EXPECT_EQ(far_.messages, (std::vector<std::string>{"hello", "lent"}));
  ASSERT_EQ(far_.views.size(), 1u);
  const void* data = nullptr;
  std::uint64_t bytes = 0;
  ASSERT_EQ(code(fw_remote_map(far_.views[0], kHang, &data, &bytes)), "kOk");
  ASSERT_EQ(bytes, 4096u);
  EXPECT_EQ(std::string(static_cast<const char*>(data), bytes), std::string(4096, 'x'));
  EXPECT_EQ(near_.returned, 0u);
  fw_remote_release(far_.views[0]);
  far_.views.clear();
  EXPECT_TRUE(eventually([&] { return near_.returned == 1; }));
  fw_device_deallocate(near_.device, memory);
}

TEST_F(CAbi, RefusesWhatCannotBeLent) {
  const char own[64] = {};
  EXPECT_EQ(lend(own, sizeof(own)), "kInvalidArgument");
  void* const memory = fw_device_allocate(near_.device, 2 << 20);
  EXPECT_EQ(lend(memory, (1 << 20) + 1), "kResourceExhausted");
  fw_device_deallocate(near_.device, memory);
  EXPECT_EQ(near_.returned, 0u);
  EXPECT_EQ(code(fw_channel_serve(near_.channel, nullptr, nullptr, nullptr)), "kInvalidArgument");
}

TEST_F(CAbi, TellsOfTheEndOnceAfterTheLastNotification) {
  for (int i = 0; i < 100; ++i) (void)fw_channel_send(near_.channel, &i, sizeof(i), 0, 0, nullptr);
  ASSERT_EQ(code(finish(near_.channel, kHang)), "kOk");
  near_.channel = nullptr;
  ASSERT_EQ(serve(far_), "kOk");
  ASSERT_TRUE(eventually([&] { return far_.ends == 1; }));
  EXPECT_EQ(far_.notifications, 100u);
  EXPECT_EQ(far_.good_order, 1);
}

TEST_F(CAbi, AViewOutlivesItsChannel) {
  ASSERT_EQ(serve(far_), "kOk");
  auto* const memory = static_cast<char*>(fw_device_allocate(near_.device, 4096));
  std::memset(memory, 'y', 4096);
  ASSERT_EQ(lend(memory, 4096), "kOk");
  ASSERT_TRUE(eventually([&] { return far_.notifications == 1; }));
  const void* data = nullptr;
  std::uint64_t bytes = 0;
  ASSERT_EQ(code(fw_remote_map(far_.views[0], kHang, &data, &bytes)), "kOk");
  ASSERT_EQ(code(finish(far_.channel, kHang)), "kOk");
  far_.channel = nullptr;
  ASSERT_EQ(code(finish(far_.device, kHang)), "kOk");
  far_.device = nullptr;
  EXPECT_EQ(static_cast<const char*>(data)[4095], 'y');
  EXPECT_EQ(code(fw_remote_map(far_.views[0], kHang, &data, &bytes)), "kOk");
  EXPECT_EQ(near_.returned, 0u) << "the view is still looked at";
  ASSERT_EQ(code(finish(near_.channel, kHang)), "kOk");
  near_.channel = nullptr;
  ASSERT_EQ(code(finish(near_.device, kHang)), "kOk");
  near_.device = nullptr;
  EXPECT_EQ(near_.returned, 1u) << "a device that closes ends what is out";
}

TEST_F(CAbi, ErrorsNameTheirCode) {
  fw_channel* channel = nullptr;
  EXPECT_EQ(code(fw_device_accept(near_.device, 1, &channel)), "kDeadlineExceeded");
  EXPECT_EQ(code(fw_device_connect(near_.device, "nowhere", 1, &channel)), "kInvalidArgument");
  EXPECT_EQ(channel, nullptr);
  End stranger;
  stranger.open("another secret");
  fw_identity identity = {};
  identity.struct_size = sizeof(identity);
  fw_device_identity(near_.device, &identity);
  EXPECT_EQ(code(fw_device_connect(stranger.device, identity.endpoint, kHang, &channel)),
            "kUnauthenticated");
  EXPECT_EQ(code(finish(stranger.device, kHang)), "kOk");
}

}  // namespace
