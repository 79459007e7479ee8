// The C ABI: handles that are released while others use what is behind them, contexts that the
// library lets go of, and what a handle tells of itself.
#include <array>
#include <memory>

#include "unit/c_api_fixture.h"

namespace farwrite::c_api_test {
namespace {

struct Context {
  std::atomic<int> calls{0}, released{0};

  static void take(void* context, const fw_notification* notification) {
    if (notification->lent != nullptr) fw_remote_release(notification->lent);
    ++static_cast<Context*>(context)->calls;
  }
  static void end(void* context, int, const fw_status* reason) {
    EXPECT_NE(fw_status_code(reason), FW_OK);
    ++static_cast<Context*>(context)->calls;
  }
  static void release(void* context) { ++static_cast<Context*>(context)->released; }
};

TEST_F(CAbi, AContextIsReleasedOnceNothingCallsIt) {
  Context first, second, ended;
  ASSERT_EQ(code(fw_channel_on_notification(far_.channel, Context::take, &first, Context::release,
                                            kHang)),
            "kOk");
  ASSERT_EQ(code(fw_channel_on_end(far_.channel, Context::end, &ended, Context::release)), "kOk");
  ASSERT_EQ(code(fw_channel_notify(near_.channel, 1, 0, nullptr)), "kOk");
  ASSERT_TRUE(eventually([&] { return first.calls == 1; }));
  EXPECT_EQ(first.released, 0);
  ASSERT_EQ(code(fw_channel_on_notification(far_.channel, Context::take, &second, Context::release,
                                            kHang)),
            "kOk");
  EXPECT_TRUE(eventually([&] { return first.released == 1; })) << "another took its place";
  ASSERT_EQ(code(fw_channel_on_notification(far_.channel, nullptr, nullptr, nullptr, kHang)),
            "kOk");
  EXPECT_TRUE(eventually([&] { return second.released == 1; })) << "the queue is back";
  ASSERT_EQ(code(fw_channel_notify(near_.channel, 2, 0, nullptr)), "kOk");
  int taken = 0;
  Context queued;
  ASSERT_EQ(code(fw_channel_take(far_.channel, kHang, Context::take, &queued, &taken)), "kOk");
  EXPECT_EQ(taken, 1);
  EXPECT_EQ(second.calls, 0);
  EXPECT_EQ(code(finish(near_.channel, kHang)), "kOk");
  near_.channel = nullptr;
  EXPECT_TRUE(eventually([&] { return ended.calls == 1; }));
  EXPECT_EQ(code(finish(far_.channel, kHang)), "kOk");
  far_.channel = nullptr;
  EXPECT_TRUE(eventually([&] { return ended.released == 1; }));
}

TEST_F(CAbi, AContextIsReleasedByARefusedCall) {
  Context context;
  EXPECT_EQ(
      code(fw_channel_on_notification(nullptr, Context::take, &context, Context::release, kHang)),
      "kInvalidArgument");
  EXPECT_EQ(code(fw_channel_on_end(near_.channel, nullptr, &context, Context::release)),
            "kInvalidArgument");
  EXPECT_EQ(context.released, 2);
  EXPECT_EQ(context.calls, 0);
}

// The handler's own handle goes while it runs: what it was given stays.
TEST_F(CAbi, ACallbackMayReleaseItsChannel) {
  struct Seen {
    std::atomic<fw_channel*> channel;
    std::atomic<int> calls{0}, released{0};
  } seen{{std::exchange(far_.channel, nullptr)}};
  const fw_handler releases = [](void* context, const fw_notification* notification) {
    auto& self = *static_cast<Seen*>(context);
    fw_channel_release(self.channel.exchange(nullptr));
    EXPECT_EQ(
        std::string(static_cast<const char*>(notification->message), notification->message_bytes),
        "hello");
    ++self.calls;
  };
  const fw_release counts = [](void* context) { ++static_cast<Seen*>(context)->released; };
  ASSERT_EQ(code(fw_channel_on_notification(seen.channel, releases, &seen, counts, kHang)), "kOk");
  Context ended;
  ASSERT_EQ(code(fw_channel_on_end(near_.channel, Context::end, &ended, nullptr)), "kOk");
  ASSERT_EQ(code(fw_channel_send(near_.channel, "hello", 5, 0, 0, nullptr)), "kOk");
  ASSERT_TRUE(eventually([&] { return seen.calls == 1; }));
  EXPECT_TRUE(eventually([&] { return ended.calls == 1; })) << "it was the last handle";
  EXPECT_TRUE(eventually([&] { return seen.released == 1; }));
}

// What has come already is delivered in the call that begins to serve, or right after it.
TEST_F(CAbi, AHandlerMayReleaseItsChannelWhileServingBegins) {
  struct Seen {
    fw_channel* channel;
    std::atomic<int> calls{0};
  } seen{std::exchange(far_.channel, nullptr)};
  fw_channel* const channel = seen.channel;
  ASSERT_EQ(code(fw_channel_send(near_.channel, "m", 1, 0, 0, nullptr)), "kOk");
  ASSERT_TRUE(eventually([&] {
    int armed = 1;
    return code(fw_channel_arm(channel, &armed)) == "kOk" && armed == 0;
  }));
  const fw_handler releases = [](void* context, const fw_notification*) {
    auto& self = *static_cast<Seen*>(context);
    fw_channel_release(std::exchange(self.channel, nullptr));
    ++self.calls;
  };
  const fw_end_handler ends = [](void*, int, const fw_status*) {};
  // Either half may find the channel closed already.
  (void)code(fw_channel_serve(channel, releases, ends, &seen));
  EXPECT_TRUE(eventually([&] { return seen.calls == 1; }));
}

TEST_F(CAbi, AReleasedChannelWithAnEngineEndsAtThePeer) {
  ASSERT_EQ(serve(near_), "kOk");
  fw_tensor_handlers handlers = {};
  handlers.struct_size = sizeof(handlers);
  handlers.on_message = Context::take;
  handlers.on_end = Context::end;
  handlers.on_landing = [](void*, const fw_landing* landing) {
    fw_landed_release(landing->landed);
  };
  handlers.on_slot = [](int) {};
  handlers.run_later = [](std::uint64_t, void (*work)(void*), void* context) { work(context); };
  Context context;
  ASSERT_EQ(code(fw_channel_serve_tensors(far_.channel, &handlers, &context)), "kOk");
  ASSERT_EQ(code(fw_channel_send(near_.channel, "m", 1, 0, 0, nullptr)), "kOk");
  ASSERT_TRUE(eventually([&] { return context.calls == 1; }));
  fw_channel_release(std::exchange(far_.channel, nullptr));
  EXPECT_TRUE(eventually([&] { return near_.ends == 1; }));
}

TEST_F(CAbi, SendingTellsWhenItIsDone) {
  ASSERT_EQ(serve(far_), "kOk");
  auto* const memory = static_cast<char*>(fw_device_allocate(near_.device, 4096));
  std::array<fw_completion*, 3> sent = {};
  ASSERT_EQ(code(fw_channel_notify(near_.channel, 1, 0, &sent[0])), "kOk");
  ASSERT_EQ(code(fw_channel_send(near_.channel, "m", 1, 2, 0, &sent[1])), "kOk");
  ASSERT_EQ(code(fw_channel_lend(near_.channel, "m", 1, memory, 4096, End::count_return, &near_, 3,
                                 0, &sent[2])),
            "kOk");
  for (fw_completion* completion : sent) {
    std::atomic<int> done{0};
    const fw_done counts = [](void* context, const fw_status* status) {
      EXPECT_EQ(status, nullptr);
      ++*static_cast<std::atomic<int>*>(context);
    };
    EXPECT_EQ(code(fw_completion_wait(completion, kHang)), "kOk");
    EXPECT_EQ(code(fw_completion_on_done(completion, counts, &done)), "kOk");
    EXPECT_EQ(done, 1);
    fw_completion_free(completion);
  }
  EXPECT_TRUE(eventually([&] { return far_.notifications == 3; }));
  for (fw_remote* view : far_.views) fw_remote_release(view);
  far_.views.clear();
  EXPECT_TRUE(eventually([&] { return near_.returned == 1; }));
  fw_device_deallocate(near_.device, memory);
}

TEST_F(CAbi, AViewOutlivesTheHandleOfItsMemory) {
  ASSERT_EQ(serve(far_), "kOk");
  auto* const memory = static_cast<char*>(fw_device_allocate(near_.device, 4096));
  std::memset(memory, 'v', 4096);
  ASSERT_EQ(lend(memory, 4096), "kOk");
  ASSERT_TRUE(eventually([&] { return far_.notifications == 1; }));
  ASSERT_EQ(far_.views.size(), 1U);
  fw_remote* const remote = far_.views.front();
  far_.views.clear();
  EXPECT_EQ(fw_remote_is_of(remote, far_.channel), 1);
  EXPECT_EQ(fw_remote_is_of(remote, near_.channel), 0);
  EXPECT_EQ(fw_remote_access(remote), static_cast<std::uint32_t>(FW_READ_ONLY));
  EXPECT_EQ(fw_remote_gpu(remote), -1);
  fw_slice slice = {};
  EXPECT_EQ(code(fw_remote_view(remote, 4000, 97, kHang, &slice)), "kOutOfRange");
  EXPECT_EQ(slice.lease, nullptr);
  ASSERT_EQ(code(fw_remote_view(remote, 4000, 96, kHang, &slice)), "kOk");
  fw_remote_release(remote);
  EXPECT_EQ(slice.bytes, 96u);
  EXPECT_EQ(static_cast<const char*>(slice.data)[95], 'v');
  EXPECT_EQ(near_.returned, 0u);
  fw_lease_release(slice.lease);
  EXPECT_TRUE(eventually([&] { return near_.returned == 1; }));
  fw_device_deallocate(near_.device, memory);
}

TEST_F(CAbi, ALeaseOfTheProgramEndsOnce) {
  Context context;
  fw_lease* lease = nullptr;
  ASSERT_EQ(code(fw_lease_make(Context::release, &context, &lease)), "kOk");
  EXPECT_EQ(context.released, 0);
  fw_lease_release(lease);
  EXPECT_EQ(context.released, 1);
}

TEST_F(CAbi, CountsWhatADeviceAndAChannelDo) {
  ASSERT_EQ(code(fw_channel_send(near_.channel, "m", 1, 0, 0, nullptr)), "kOk");
  fw_channel_counts stats = {};
  stats.struct_size = sizeof(stats);
  fw_channel_stats(near_.channel, &stats);
  EXPECT_EQ(stats.messages_sent, 1u);
  EXPECT_EQ(stats.silences, 0u);
  fw_device_counts counts = {};
  counts.struct_size = sizeof(counts);
  fw_device_stats(near_.device, &counts);
  EXPECT_EQ(counts.channels_open, 1u);
  EXPECT_EQ(counts.send.limit, 16u << 20);
  EXPECT_EQ(counts.receive.limit, 16u << 20);
  fw_identity identity = {};
  identity.struct_size = sizeof(identity);
  fw_device_identity(far_.device, &identity);
  std::string lines(fw_device_choices(near_.device, nullptr, 0), ' ');
  fw_device_choices(near_.device, lines.data(), lines.size() + 1);
  EXPECT_EQ(lines.find(identity.endpoint), 0u) << lines;
  EXPECT_EQ(lines.back(), '\n');
}

TEST_F(CAbi, ContainsAllOfAPiece) {
  auto* const memory = static_cast<char*>(fw_device_allocate(near_.device, 4096));
  EXPECT_EQ(fw_device_contains_all(near_.device, memory, 4096), 1);
  EXPECT_EQ(fw_device_contains_all(near_.device, memory, std::uint64_t{1} << 40), 0);
  EXPECT_EQ(fw_device_contains_all(far_.device, memory, 1), 0);
  fw_device_deallocate(near_.device, memory);
}

TEST(CAbiCopy, NamesItsKernels) {
  struct Seen {
    int chosen = 0, copied = 0;
  } seen;
  fw_copy_kernels(
      [](void* context, const fw_copy_kernel* kernel) {
        auto& self = *static_cast<Seen*>(context);
        EXPECT_STRNE(kernel->name, "");
        self.chosen += static_cast<int>(kernel->chosen);
        if (kernel->supported == 0) return;
        char copy[6] = {};
        kernel->function(copy, "bytes", sizeof(copy));
        EXPECT_STREQ(copy, "bytes");
        ++self.copied;
      },
      &seen);
  EXPECT_EQ(seen.chosen, 1);
  EXPECT_GE(seen.copied, 1);
}

}  // namespace
}  // namespace farwrite::c_api_test
