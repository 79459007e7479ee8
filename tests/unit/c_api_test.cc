// The C ABI between two devices of one process.
#include "farwrite/c_api.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <future>
#include <string>
#include <thread>
#include <vector>

extern "C" int farwrite_test_c_header(void);

namespace {

constexpr std::uint64_t kHang = 30'000'000'000;

bool eventually(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::nanoseconds(kHang);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

// The name of a status's code, and the status freed.
std::string code(fw_status* status) {
  const std::string name = fw_status_code_name(status);
  fw_status_free(status);
  return name;
}

// One end of a channel and what its callbacks have seen.
struct End {
  fw_device* device = nullptr;
  fw_channel* channel = nullptr;
  std::atomic<std::uint32_t> notifications{0}, ends{0}, returned{0};
  std::atomic<int> good_order{-1};
  std::mutex mutex;
  std::vector<fw_view*> views;
  std::vector<std::string> messages;

  static void take(void* context, const fw_notification* notification) {
    auto& self = *static_cast<End*>(context);
    const std::lock_guard<std::mutex> lock(self.mutex);
    self.messages.emplace_back(static_cast<const char*>(notification->message),
                               notification->message_bytes);
    if (notification->lent != nullptr) self.views.push_back(notification->lent);
    ++self.notifications;
  }
  static void end(void* context, int closed_in_good_order, const char* reason) {
    auto& self = *static_cast<End*>(context);
    EXPECT_NE(std::string(reason), "");
    self.good_order = closed_in_good_order;
    ++self.ends;
  }
  static void count_return(void* context) { ++static_cast<End*>(context)->returned; }

  void open(const char* token = "secret") {
    fw_device_options options = {};
    options.struct_size = sizeof(options);
    options.listen = "127.0.0.1:0";
    options.fabrics = "shm";
    options.token = token;
    options.send_limit = 16 << 20;
    options.segment_bytes = 2 << 20;
    options.send_limit_per_peer = 1 << 20;
    ASSERT_EQ(code(fw_device_open(&options, &device)), "kOk");
  }
};

class CAbi : public testing::Test {
 protected:
  void SetUp() override {
    near_.open();
    far_.open();
    fw_identity identity = {};
    fw_device_identity(far_.device, &identity);
    auto accepted = std::async(std::launch::async, [&] {
      return code(fw_device_accept(far_.device, kHang, &far_.channel));
    });
    ASSERT_EQ(code(fw_device_connect(near_.device, identity.endpoint, kHang, &near_.channel)),
              "kOk");
    ASSERT_EQ(accepted.get(), "kOk");
  }
  void TearDown() override {
    for (End* end : {&near_, &far_}) {
      if (end->channel != nullptr) {
        EXPECT_EQ(code(fw_channel_close(end->channel, kHang)), "kOk");
      }
      for (fw_view* view : end->views) fw_view_release(view);
    }
    for (End* end : {&near_, &far_}) {
      if (end->device != nullptr) {
        EXPECT_EQ(code(fw_device_close(end->device, kHang)), "kOk");
      }
    }
  }
  std::string serve(End& end) {
    return code(fw_channel_serve(end.channel, End::take, End::end, &end));
  }
  std::string lend(const void* memory, std::uint64_t bytes, const std::string& message = "m") {
    return code(fw_channel_lend(near_.channel, message.data(), message.size(), memory, bytes,
                                End::count_return, &near_, 3, 0));
  }

  End near_, far_;
};

TEST(CAbiHeader, IsPlainC) { EXPECT_EQ(farwrite_test_c_header(), 0); }

TEST(CAbiHeader, AShorterStructOfAnEarlierHeaderIsUnderstood) {
  struct Earlier {
    std::size_t struct_size;
    const char* listen;
  } options = {sizeof(Earlier), "127.0.0.1:0"};
  fw_device* device = nullptr;
  ASSERT_EQ(code(fw_device_open(reinterpret_cast<fw_device_options*>(&options), &device)), "kOk");
  EXPECT_EQ(code(fw_device_close(device, kHang)), "kOk");
}

TEST_F(CAbi, TellsWhoIsWho) {
  fw_identity self = {}, seen = {};
  fw_device_identity(far_.device, &self);
  fw_channel_peer(near_.channel, &seen);
  EXPECT_EQ(std::memcmp(self.uuid, seen.uuid, sizeof(self.uuid)), 0);
  EXPECT_EQ(self.epoch, seen.epoch);
  EXPECT_STREQ(self.endpoint, seen.endpoint);
  EXPECT_STREQ(fw_channel_fabric(near_.channel), "shm");
  EXPECT_GE(fw_channel_max_message_bytes(near_.channel), 4096u);
  EXPECT_NE(std::string(fw_version()), "");
}

TEST_F(CAbi, CopiesBytesOfAnySize) {
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
  ASSERT_EQ(code(fw_channel_send(near_.channel, "hello", 5, 1, 0)), "kOk");
  auto* const memory = static_cast<char*>(fw_device_allocate(near_.device, 4096));
  std::memset(memory, 'x', 4096);
  ASSERT_EQ(lend(memory, 4096, "lent"), "kOk");
  ASSERT_TRUE(eventually([&] { return far_.notifications == 2; }));
  EXPECT_EQ(far_.messages, (std::vector<std::string>{"hello", "lent"}));
  ASSERT_EQ(far_.views.size(), 1u);
  const void* data = nullptr;
  std::uint64_t bytes = 0;
  ASSERT_EQ(code(fw_view_map(far_.views[0], &data, &bytes)), "kOk");
  ASSERT_EQ(bytes, 4096u);
  EXPECT_EQ(std::string(static_cast<const char*>(data), bytes), std::string(4096, 'x'));
  EXPECT_EQ(near_.returned, 0u);
  fw_view_release(far_.views[0]);
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
  for (int i = 0; i < 100; ++i) (void)fw_channel_send(near_.channel, &i, sizeof(i), 0, 0);
  ASSERT_EQ(code(fw_channel_close(near_.channel, kHang)), "kOk");
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
  ASSERT_EQ(code(fw_view_map(far_.views[0], &data, &bytes)), "kOk");
  ASSERT_EQ(code(fw_channel_close(far_.channel, kHang)), "kOk");
  far_.channel = nullptr;
  ASSERT_EQ(code(fw_device_close(far_.device, kHang)), "kOk");
  far_.device = nullptr;
  EXPECT_EQ(static_cast<const char*>(data)[4095], 'y');
  EXPECT_EQ(code(fw_view_map(far_.views[0], &data, &bytes)), "kOk");
  EXPECT_EQ(near_.returned, 0u) << "the view is still looked at";
  ASSERT_EQ(code(fw_channel_close(near_.channel, kHang)), "kOk");
  near_.channel = nullptr;
  ASSERT_EQ(code(fw_device_close(near_.device, kHang)), "kOk");
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
  fw_device_identity(near_.device, &identity);
  EXPECT_EQ(code(fw_device_connect(stranger.device, identity.endpoint, kHang, &channel)),
            "kUnauthenticated");
  EXPECT_EQ(code(fw_device_close(stranger.device, kHang)), "kOk");
}

}  // namespace
