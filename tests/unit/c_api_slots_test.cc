// Tensors that land in slots by the C ABI: what the plug-in for TensorFlow moves them with.
#include <array>
#include <cstdlib>
#include <memory>
#include <string>

#include "unit/c_api_on_fabric.h"

namespace {

using namespace farwrite::c_api_test;

// What has landed at one end, and what its engine counted.
struct Landings {
  // The context of all handlers of one end.
  struct Side {
    End* end = nullptr;
    Landings* landings = nullptr;
    static void take_message(void* context, const fw_notification* message) {
      End::take(static_cast<Side*>(context)->end, message);
    }
    static void take_end(void* context, int good_order, const fw_status* reason) {
      End::end(static_cast<Side*>(context)->end, good_order, reason);
    }
  };

  std::mutex mutex;
  std::vector<std::string> edges, descriptions;
  std::vector<std::string> bytes;
  std::vector<fw_landed*> held;

  static void take(void* context, const fw_landing* landing) {
    Landings& self = *static_cast<Side*>(context)->landings;
    const std::lock_guard<std::mutex> lock(self.mutex);
    EXPECT_EQ(landing->struct_size, sizeof(*landing));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(landing->data) % 64, 0u);
    self.edges.emplace_back(landing->edge, landing->edge_bytes);
    self.descriptions.emplace_back(static_cast<const char*>(landing->description),
                                   landing->description_bytes);
    self.bytes.emplace_back(static_cast<const char*>(landing->data), landing->bytes);
    self.held.push_back(landing->landed);
  }
  std::size_t count() {
    const std::lock_guard<std::mutex> lock(mutex);
    return held.size();
  }
  void release_oldest() {
    fw_landed* oldest = nullptr;
    {
      const std::lock_guard<std::mutex> lock(mutex);
      oldest = held.front();
      held.erase(held.begin());
    }
    fw_landed_release(oldest);
  }
};

std::atomic<int> slots_opened{0}, slots_refused{0};
void count_slot(int opened) { ++(opened != 0 ? slots_opened : slots_refused); }

// Joined at the end of each test: what is to run later.
std::mutex later_mutex;
std::vector<std::thread> later;
void run_later(std::uint64_t delay_ns, void (*work)(void*), void* context) {
  const std::lock_guard<std::mutex> lock(later_mutex);
  later.emplace_back([=] {
    std::this_thread::sleep_for(std::chrono::nanoseconds(delay_ns));
    work(context);
  });
}
void join_later() {
  while (true) {
    std::vector<std::thread> threads;
    {
      const std::lock_guard<std::mutex> lock(later_mutex);
      threads.swap(later);
    }
    if (threads.empty()) return;
    for (std::thread& thread : threads) thread.join();
  }
}

class CAbiSlots : public CAbiOnFabric {
 protected:
  void TearDown() override {
    CAbi::TearDown();
    // What landed last may have landed while the channel closed.
    for (fw_landed* landed : landings_.held) fw_landed_release(landed);
    join_later();
    EXPECT_EQ(slots().slots, 0u);
  }

  std::string serve_tensors(End& end, Landings::Side& side, fw_channel* by = nullptr) {
    fw_channel* const channel = by == nullptr ? end.channel : by;
    side = {&end, &landings_};
    struct {  // as a later version may have it
      fw_tensor_handlers known;
      std::size_t later;
    } all = {{}, 1};
    fw_tensor_handlers& handlers = all.known;
    handlers.struct_size = sizeof(all);
    handlers.on_message = &Landings::Side::take_message;
    handlers.on_end = &Landings::Side::take_end;
    handlers.on_landing = &Landings::take;
    handlers.on_slot = &count_slot;
    handlers.run_later = &run_later;
    EXPECT_EQ(code(fw_channel_serve_tensors(channel, &handlers, &side)), "kUnsupported");
    all.later = 0;
    return code(fw_channel_serve_tensors(channel, &handlers, &side));
  }
  void serve_both() {
    slots_opened = slots_refused = 0;
    ASSERT_EQ(serve_tensors(near_, near_side_), "kOk");
    ASSERT_EQ(serve_tensors(far_, far_side_), "kOk");
  }

  // 1: it was written into a slot; 0: no slot is free.
  int push(const std::string& body, Outcome& outcome, const std::string& description = "first",
           const std::string& edge = "an/edge") {
    int pushed = 0;
    EXPECT_EQ(code(fw_channel_push(near_.channel, edge.data(), edge.size(), description.data(),
                                   description.size(), body.data(), body.size(), 0, Outcome::take,
                                   &outcome, &pushed)),
              "kOk");
    return pushed;
  }
  bool has_slot(std::uint64_t bytes) {
    return fw_channel_has_slot(near_.channel, "an/edge", 7, bytes) == 1;
  }
  // Far opens slots for tensors of this size, and near knows it. As with every offer of a sender: a
  // wish is dropped while slots are being opened.
  void want(std::uint64_t bytes) {
    ASSERT_TRUE(eventually([&] {
      if (has_slot(bytes)) return true;
      fw_channel_want_slots(far_.channel, "an/edge", 7, bytes);
      return false;
    }));
  }
  fw_slot_stats slots() {
    fw_slot_stats stats = {};
    stats.struct_size = sizeof(stats);
    fw_slots(&stats);
    return stats;
  }

  Landings landings_;
  Landings::Side near_side_, far_side_;
};

TEST_P(CAbiSlots, ATensorLandsInASlotAndTheSlotComesBack) {
  EXPECT_EQ(fw_channel_maps(near_.channel), std::string(GetParam()) == "shm" ? 1 : 0);
  serve_both();
  const std::string body(100'000, 'b');
  Outcome written;
  EXPECT_EQ(push(body, written), 0) << "nobody has opened a slot";
  want(body.size());
  EXPECT_TRUE(eventually([&] { return slots_opened == 2; }));
  EXPECT_EQ(slots().slots, 2u);
  EXPECT_EQ(push(body, written), 1);
  ASSERT_TRUE(eventually([&] { return landings_.count() == 1; }));
  EXPECT_TRUE(eventually([&] { return written.done == 1; }));
  EXPECT_EQ(written.error, "");
  EXPECT_EQ(landings_.edges, std::vector<std::string>{"an/edge"});
  EXPECT_EQ(landings_.descriptions, std::vector<std::string>{"first"});
  EXPECT_TRUE(landings_.bytes.front() == body);
  EXPECT_EQ(slots().held, 1u);
  // A step that keeps every tensor finds no slot some time, and goes on by offers.
  ASSERT_TRUE(eventually([&] { return has_slot(body.size()); }));
  EXPECT_EQ(push(body, written, "second"), 1);
  ASSERT_TRUE(eventually([&] { return landings_.count() == 2; }));
  EXPECT_EQ(push(body, written, "third"), 0);
  landings_.release_oldest();
  ASSERT_TRUE(eventually([&] { return has_slot(body.size()); }));
  EXPECT_EQ(push(body, written, "fourth"), 1);
  ASSERT_TRUE(eventually([&] { return landings_.count() == 2; }));
  EXPECT_EQ(landings_.descriptions.back(), "fourth");
  EXPECT_TRUE(eventually([&] { return written.done == 3; }));
}

TEST_P(CAbiSlots, LargerTensorsGetLargerSlotsAndTheSmallOnesAreGivenUp) {
  serve_both();
  want(1000);
  ASSERT_TRUE(eventually([&] { return slots().slots == 2; }));
  Outcome written;
  ASSERT_EQ(push(std::string(1000, 's'), written), 1);
  ASSERT_TRUE(eventually([&] { return landings_.count() == 1; }));
  want(5000);
  EXPECT_TRUE(eventually([&] { return slots().slots == 3; })) << "two large ones, one held";
  landings_.release_oldest();
  EXPECT_TRUE(eventually([&] { return slots().slots == 2; })) << "it is not granted again";
  EXPECT_EQ(slots().bytes, 10'000u);
  EXPECT_EQ(push(std::string(1000, 's'), written), 1) << "a large slot takes a small tensor";
}

TEST_P(CAbiSlots, WhatDoesNotFitIsRefusedAndNotReported) {
  Outcome written;
  int pushed = 1;
  EXPECT_EQ(code(fw_channel_push(near_.channel, "e", 1, "d", 1, "b", 1, 0, Outcome::take, &written,
                                 &pushed)),
            "kFailedPrecondition");
  EXPECT_EQ(pushed, 1) << "an error changed the output";
  EXPECT_EQ(code(fw_channel_serve_tensors(near_.channel, nullptr, nullptr)), "kInvalidArgument");
  serve_both();
  EXPECT_EQ(serve_tensors(near_, near_side_), "kInvalidArgument") << "it has an engine";
  fw_channel_want_slots(far_.channel, "an/edge", 7, 17 << 20);
  EXPECT_TRUE(eventually([&] { return slots_refused == 1; })) << "over receive_limit_per_peer";
  EXPECT_EQ(slots().slots, 0u);
  join_later();
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));  // none is asked for meanwhile
  want(128);
  EXPECT_FALSE(has_slot(129));
  EXPECT_EQ(push(std::string(129, 'b'), written), 0);
  EXPECT_EQ(push(std::string(128, 'b'), written, std::string(217, 'd')), 0)
      << "the description is too long";
  EXPECT_EQ(push(std::string(128, 'b'), written, std::string(216, 'd')), 1);
  EXPECT_TRUE(eventually([&] { return written.done == 1; }));
}

TEST_P(CAbiSlots, ALandedTensorOutlivesItsChannel) {
  serve_both();
  want(4096);
  Outcome written;
  ASSERT_EQ(push(std::string(4096, 'x'), written), 1);
  ASSERT_TRUE(eventually([&] { return landings_.count() == 1; }));
  ASSERT_TRUE(eventually([&] { return written.done == 1; }));
  ASSERT_EQ(code(finish(far_.channel, kHang)), "kOk");
  far_.channel = nullptr;
  ASSERT_TRUE(eventually([&] { return near_.ends == 1; }));
  landings_.release_oldest();
  EXPECT_TRUE(eventually([&] { return slots().slots == 0; }));
}

TEST_P(CAbiSlots, MessagesAndLeasesPassTheEngine) {
  serve_both();
  auto* const source = static_cast<char*>(fw_device_allocate(near_.device, 64));
  ASSERT_NE(source, nullptr);
  EXPECT_EQ(code(fw_channel_send(near_.channel, "plain", 5, 0x00ffffff, 0, nullptr)), "kOk");
  EXPECT_EQ(lend(source, 64, "lent"), "kOk");
  ASSERT_TRUE(eventually([&] { return far_.notifications == 2; }));
  EXPECT_EQ(far_.messages, (std::vector<std::string>{"plain", "lent"}));
  EXPECT_EQ(far_.tags, (std::vector<std::uint32_t>{0x00ffffff, 3}));
  ASSERT_EQ(far_.views.size(), 1u);
  fw_remote_release(far_.views[0]);
  far_.views.clear();
  EXPECT_TRUE(eventually([&] { return near_.returned == 1; }));
  fw_device_deallocate(near_.device, source);
}

TEST_P(CAbiSlots, EveryHandleOfAChannelKnowsOfItsEngine) {
  fw_channel* const early = fw_channel_share(near_.channel);
  serve_both();
  EXPECT_EQ(code(fw_channel_notify(early, 1, 0, nullptr)), "kInvalidArgument");
  EXPECT_EQ(code(fw_channel_send(early, "m", 1, 1u << 24, 0, nullptr)), "kInvalidArgument");
  EXPECT_EQ(code(fw_channel_serve(early, End::take, End::end, &near_)), "kInvalidArgument");
  EXPECT_EQ(serve_tensors(near_, near_side_, early), "kInvalidArgument");
  EXPECT_EQ(code(fw_channel_send(early, "early", 5, 9, 0, nullptr)), "kOk");
  ASSERT_TRUE(eventually([&] { return far_.notifications == 1; }));
  EXPECT_EQ(far_.messages, std::vector<std::string>{"early"});
  EXPECT_EQ(far_.tags, std::vector<std::uint32_t>{9});
  want(64);
  EXPECT_EQ(fw_channel_has_slot(early, "an/edge", 7, 64), 1);
  EXPECT_EQ(fw_channel_same(early, near_.channel), 1);
  EXPECT_EQ(fw_channel_same(early, far_.channel), 0);
  fw_channel_release(early);
  EXPECT_EQ(fw_channel_state(near_.channel), static_cast<std::uint32_t>(FW_PEER_ALIVE));
}

TEST_P(CAbiSlots, APeerThatBreaksTheProtocolLosesItsChannel) {
  ASSERT_EQ(serve_tensors(far_, far_side_), "kOk");
  // Near has no engine, so its tags are its own.
  EXPECT_EQ(code(fw_channel_send(near_.channel, "x", 1, 0xf0000007, 0, nullptr)), "kOk");
  EXPECT_TRUE(eventually([&] { return far_.ends == 1; })) << "a landing in a slot that never was";
  EXPECT_EQ(far_.good_order, 0);
}

#ifdef FARWRITE_HAVE_VERBS
class CAbiSlotsHeldUp : public CAbiSlots {
 protected:
  void SetUp() override {
    open_over(rnic_, near_);
    open_over(rnic_, far_);
    connect();
  }
};

// The channel's end ends every wait at once, but an adapter that stands still may yet read.
TEST_P(CAbiSlotsHeldUp, AWriteIsReportedOnlyWhenItsSourceIsNotReadAnyMore) {
  serve_both();
  const std::string body(100'000, 'b');
  want(body.size());
  join_later();
  Outcome written;
  rnic_.pause();
  EXPECT_EQ(push(body, written), 1);
  std::thread closer([&] { EXPECT_NE(code(finish(near_.channel, 100'000'000)), ""); });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_EQ(written.done, 0);
  rnic_.resume();
  closer.join();
  near_.channel = nullptr;
  EXPECT_TRUE(eventually([&] { return written.done == 1; }));
}

INSTANTIATE_TEST_SUITE_P(Verbs, CAbiSlotsHeldUp, testing::Values("verbs"),
                         [](const auto& param) { return std::string(param.param); });
#endif

INSTANTIATE_TEST_SUITE_P(Fabrics, CAbiSlots, testing::Values("shm", "tcp"),
                         [](const auto& param) { return std::string(param.param); });
#ifdef FARWRITE_HAVE_VERBS
// Over the software adapter, or over the machine's own if FARWRITE_TEST_VERBS is "real".
INSTANTIATE_TEST_SUITE_P(Verbs, CAbiSlots, testing::Values("verbs"),
                         [](const auto& param) { return std::string(param.param); });
#endif

}  // namespace
