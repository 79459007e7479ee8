// Threads of a box's client: which one takes the answers is nothing that a program notices.
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "conformance/box_fixture.h"

namespace farwrite::box {
namespace {

constexpr std::uint64_t kThreadElements = 1000;

using BoxThreads = BoxConformance;

TEST_P(BoxThreads, AThreadThatWaitsRunsNoCallbackOfAnother) {
  const Client client = connect();
  const Segment segment = create(client, vector_spec("weights", kThreadElements));
  const Segment other = create(client, vector_spec("other", kThreadElements));
  std::atomic<bool> stop = false;
  std::thread waiting([&] {
    for (int i = 0; !stop; ++i) {
      EXPECT_OK(client.create(vector_spec("other " + std::to_string(i), 4)));
      EXPECT_OK(client.list());
      (void)read(segment);
      EXPECT_OK(segment.lease(kHang));
      EXPECT_OK(other.post(change_of(Operation::kFill, 1.0), kHang).done.wait({}));
    }
  });
  const std::thread::id waiter = waiting.get_id();
  for (std::uint64_t i = 1; i <= 100; ++i) {
    std::atomic<bool> changed = false, reached = false, by_waiter = false;
    segment.on_version(i, [&](const Result<VersionId>& version) {
      EXPECT_OK(version);
      if (std::this_thread::get_id() == waiter) by_waiter = true;
      reached = true;
    });
    segment.post(change_of(Operation::kFill, 1.0)).done.on_done([&](const Status& status) {
      EXPECT_OK(status);
      if (std::this_thread::get_id() == waiter) by_waiter = true;
      changed = true;
    });
    ASSERT_TRUE(eventually([&] { return changed && reached; })) << i;
    EXPECT_FALSE(by_waiter) << i;
  }
  stop = true;
  waiting.join();
}

TEST_P(BoxThreads, AChangeThatWaitsIsDoneWhenItReturns) {
  const Client client = connect();
  const Segment small = create(client, vector_spec("small", 4));
  const Segment large = create(client, vector_spec("large", std::uint64_t{1} << 20));
  for (std::uint64_t i = 1; i <= 50; ++i) {
    for (const Segment& segment : {small, large}) {
      const std::vector<float> values(segment.info().bytes / sizeof(float), static_cast<float>(i));
      Change whole;
      whole.memory = view(values);
      const Update update = segment.post(whole, kHang);
      ASSERT_TRUE(update.done.settled());
      ASSERT_OK(update.done.wait({}));
      ASSERT_EQ(*update.version, i);
      ASSERT_TRUE(all_are(static_cast<float>(i), read(segment)));
    }
  }
  // One that the server refuses, and one for which there is no time.
  Change unknown = change_of(Operation::kAccumulate);
  unknown.x_key = 12345;
  const Update refused = small.post(unknown, kHang);
  ASSERT_TRUE(refused.done.done());
  EXPECT_CODE(kNotFound, refused.done.wait({}));
  const Update hasty = small.post(change_of(Operation::kFill, 7.0), std::chrono::nanoseconds(1));
  EXPECT_OK(hasty.done.wait(kHang));
  EXPECT_TRUE(all_are(7.0F, read(small)));
}

TEST_P(BoxThreads, ACallbackCannotWaitForItsChange) {
  const Client client = connect();
  const Segment segment = create(client, vector_spec("weights", kThreadElements));
  std::atomic<bool> called = false;
  segment.on_version(1, [&](const Result<VersionId>&) {
    const Update update = segment.post(change_of(Operation::kFill, 2.0), kHang);
    EXPECT_CODE(kFailedPrecondition, update.done.wait({}));
    called = true;
  });
  EXPECT_EQ(apply(segment, change_of(Operation::kFill, 1.0)), 1);
  ASSERT_TRUE(eventually([&] { return called.load(); }));
  EXPECT_TRUE(all_are(1.0F, read(segment)));
}

TEST_P(BoxThreads, AnIdleClientLetsGoOfFreedSegments) {
  const Client owner = connect();
  const Client reader = connect();
  // Two fit into the server's memory.
  const std::uint64_t elements = (std::uint64_t{24} << 20) / sizeof(float);
  std::vector<Segment> attached;
  for (int i = 0; i < 6; ++i) {
    const std::string name = "segment " + std::to_string(i);
    Result<Segment> made = Status(StatusCode::kInternal, "not made");
    ASSERT_TRUE(eventually([&] { return (made = owner.create(vector_spec(name, elements))).ok(); }))
        << i;
    Result<Segment> read_too = reader.attach(name);
    ASSERT_OK(read_too);
    std::vector<float> some(100);
    ASSERT_OK(read_too->read({some.data(), 400}));
    attached.push_back(read_too.value());
    ASSERT_OK(made->free());  // the reader is notified without a call
  }
}

TEST_P(BoxThreads, ThreadsThatWaitAtTheSameTimeAllGetTheirAnswers) {
  const Client client = connect();
  const Segment segment = create(client, vector_spec("weights", kThreadElements));
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 3; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < 50; ++i) {
        const std::string name = std::to_string(thread) + " " + std::to_string(i);
        Result<Segment> made = client.create(vector_spec(name, 4));
        ASSERT_OK(made);
        EXPECT_TRUE(all_are(0.0F, read(made.value())));
        EXPECT_NE(0U, apply(segment, change_of(Operation::kScale, 1.0)));
        EXPECT_OK(made->free());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(1U, client.list().value().size());
}

FARWRITE_EVERY_FABRIC(BoxThreads);

}  // namespace
}  // namespace farwrite::box
