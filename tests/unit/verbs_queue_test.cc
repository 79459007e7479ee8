// CompletionQueue: what many lanes share, looked at by many threads.
#include <atomic>
#include <thread>

#include "fabric/verbs/completion_queue.h"
#include "unit/software_rnic_fixture.h"
#include "unit/verbs_link_fixture.h"

namespace farwrite::fabric::verbs {
namespace {

struct Counting final : QueueClient {
  void on_work(const ibv_wc& completion, std::uint32_t number) override {
    EXPECT_EQ(completion.status, IBV_WC_SUCCESS);
    EXPECT_EQ(number, next++);
    most = std::max(most, ++since);
  }
  void on_looked_at() override { since = 0; }

  std::uint32_t next = 0, since = 0, most = 0;
};

// A lane posts its receives again when it is told that a look is over. While completions keep
// coming, a look has no end, and a lane without receives looks like one whose peer has gone.
TEST(VerbsQueueTest, ALaneIsToldOfManyCompletionsInSmallShares) {
  SoftwareRnic rnic;
  {
    verbs_double::Side client(rnic, {512, 64, 64}), server(rnic);
    auto queue = CompletionQueue::create(rnic, client.context, 8192).value();
    Counting counting;
    const CompletionQueue::QueueShare share = queue->add(counting, 512).value();
    ibv_cq* const own = std::exchange(client.queue, share.queue);
    verbs_double::connect_sides(client, server);
    client.queue = own;
    auto& from = client.buffer(64);
    auto& to = server.buffer(64);
    for (std::uint32_t i = 0; i < 400; ++i) {
      ASSERT_EQ(client.post(IBV_WR_RDMA_WRITE, from, 64, &to, CompletionQueue::work_id(share, i)),
                0);
    }
    while (rnic.bytes_moved() < 400 * 64) std::this_thread::yield();
    queue->look();
    EXPECT_EQ(counting.next, 400U);
    EXPECT_EQ(counting.since, 0U);
    EXPECT_LE(counting.most, 32U);
    queue->remove(share);
    client.close_id();
    queue.reset();
  }
  EXPECT_THAT(rnic.complaints(), testing::IsEmpty());
  EXPECT_THAT(rnic.leaks(), testing::IsEmpty());
}

// Every lane of one link has a thread of its own, which sleeps on its doorbell: nothing may sleep
// through its news because something else looked.
class VerbsSleepers : public VerbsPair {};

TEST_F(VerbsSleepers, ManyLanesOnOneQueueWakeTheirOwnSleepers) {
  constexpr std::uint32_t kLanes = 4;
  constexpr std::uint32_t kEach = 3000;
  FabricOptions options;
  options.receive_credits = 16;
  make(options, kLanes);
  std::atomic<bool> stop{false};
  std::atomic<std::uint32_t> echoed{0};
  std::vector<Recorder> at_b(kLanes), at_a(kLanes);
  std::vector<std::thread> threads;
  const auto sleep_on = [&](Side& side, Recorder& recorder, std::uint32_t lane) {
    while (!stop) {
      if (side.link->lane(lane).poll(recorder).delivered > 0) continue;
      const Doorbell doorbell = side.link->lane(lane).arm();
      if (doorbell.ready || doorbell.holds) continue;
      pollfd waiting{doorbell.fd, POLLIN, 0};
      (void)::poll(&waiting, 1, 60'000);
    }
  };
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    at_b[lane].at_notification = [&, lane](const Notification& one) {
      (void)b_.tell(OperationKind::kMessage, one.tag, lane);
    };
    // One at a time: a wake-up that is lost stops everything.
    at_a[lane].at_notification = [&, lane](const Notification& one) {
      ++echoed;
      if (one.tag + 1 < kEach) (void)a_.notify(one.tag + 1, lane);
    };
    threads.emplace_back([&, lane] { sleep_on(a_, at_a[lane], lane); });
    threads.emplace_back([&, lane] { sleep_on(b_, at_b[lane], lane); });
  }
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) (void)a_.notify(0, lane);
  auto end = std::chrono::steady_clock::now() + kPatience;
  std::uint32_t before = 0;
  while (echoed < kLanes * kEach && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    if (echoed == before) continue;
    before = echoed;
    end = std::chrono::steady_clock::now() + kPatience;  // it goes on, however slowly
  }
  EXPECT_EQ(echoed, kLanes * kEach) << before;
  stop = true;
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    (void)a_.notify(kEach, lane);
    (void)b_.notify(kEach, lane);
  }
  for (std::thread& thread : threads) thread.join();
}

// Completions are told from whichever thread looked; a callback posts again, on any lane.
TEST_F(VerbsSleepers, CallbacksOfCompletionsMayPostAndPoll) {
  constexpr std::uint32_t kLanes = 3;
  FabricOptions options;
  options.send_queue_depth = 16;
  make(options, kLanes);
  std::vector<std::byte> destination(kLanes * 5000);
  std::atomic<std::uint32_t> posted{0}, done{0};
  std::function<void(std::uint32_t)> again = [&](std::uint32_t round) {
    const std::uint32_t lane = round % kLanes;
    ++posted;
    const Completion read = a_.read({destination.data() + lane * 5000, 5000}, 0, lane);
    read.on_done([&, round](const Status& status) {
      EXPECT_TRUE(status.ok()) << status.message();
      (void)a_.link->lane((round + 1) % kLanes).poll(a_.recorder);
      if (round < 1000) again(round + 7);
      ++done;
    });
  };
  for (std::uint32_t start = 0; start < 7; ++start) again(start);
  ASSERT_TRUE(until([&] { return done == posted; }));
  EXPECT_GT(posted, 1000U);
}

}  // namespace
}  // namespace farwrite::fabric::verbs
