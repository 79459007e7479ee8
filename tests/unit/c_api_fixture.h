// Two devices of one process and a channel between them, by the C ABI.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <future>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "c_handles.h"
#include "farwrite/c_api.h"

namespace farwrite::c_api_test {

constexpr std::uint64_t kHang = 30'000'000'000;

inline bool eventually(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::nanoseconds(kHang);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

// The name of a status's code, and the status freed.
inline std::string code(fw_status* status) {
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
  std::vector<fw_remote*> views;
  std::vector<std::string> messages;
  std::vector<std::uint32_t> tags;

  static void take(void* context, const fw_notification* notification) {
    auto& self = *static_cast<End*>(context);
    const std::lock_guard<std::mutex> lock(self.mutex);
    EXPECT_EQ(notification->struct_size, sizeof(*notification));
    self.messages.emplace_back(static_cast<const char*>(notification->message),
                               notification->message_bytes);
    self.tags.push_back(notification->tag);
    if (notification->lent != nullptr) self.views.push_back(notification->lent);
    ++self.notifications;
  }
  static void end(void* context, int closed_in_good_order, const fw_status* reason) {
    auto& self = *static_cast<End*>(context);
    EXPECT_NE(std::string(fw_status_message(reason)), "");
    self.good_order = closed_in_good_order;
    ++self.ends;
  }
  static void count_return(void* context) { ++static_cast<End*>(context)->returned; }

  void open(const char* token = "secret", const char* fabrics = "shm") {
    fw_device_options options = {};
    options.struct_size = sizeof(options);
    options.listen = "127.0.0.1:0";
    options.fabrics = fabrics;
    options.token = token;
    options.send_limit = 16 << 20;
    options.segment_bytes = 2 << 20;
    options.send_limit_per_peer = 1 << 20;
    options.receive_limit = 16 << 20;
    options.receive_limit_per_peer = 2 << 20;
    ASSERT_EQ(code(fw_device_open(&options, &device)), "kOk");
  }
};

class CAbi : public testing::Test {
 protected:
  void SetUp() override { meet("shm"); }
  void meet(const char* fabrics) {
    near_.open("secret", fabrics);
    far_.open("secret", fabrics);
    connect();
  }
  // Between two devices that are open.
  void connect() {
    fw_identity identity = {};
    identity.struct_size = sizeof(identity);
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
        EXPECT_EQ(code(finish(end->channel, kHang)), "kOk");
      }
      for (fw_remote* view : end->views) fw_remote_release(view);
    }
    for (End* end : {&near_, &far_}) {
      if (end->device != nullptr) {
        EXPECT_EQ(code(finish(end->device, kHang)), "kOk");
      }
    }
  }
  std::string serve(End& end) {
    return code(fw_channel_serve(end.channel, End::take, End::end, &end));
  }
  std::string lend(const void* memory, std::uint64_t bytes, const std::string& message = "m") {
    return code(fw_channel_lend(near_.channel, message.data(), message.size(), memory, bytes,
                                End::count_return, &near_, 3, 0, nullptr));
  }

  End near_, far_;
};

}  // namespace farwrite::c_api_test
