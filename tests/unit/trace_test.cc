#include "core/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "core/trace_ring.h"
#include "json_check.h"

namespace farwrite::core {
namespace {

using testing::HasSubstr;
using testing::Not;

TraceEvent event(std::string_view name, std::uint64_t begin_ns, std::uint64_t end_ns,
                 TraceKind kind = TraceKind::kCall) {
  return {name, "shm", "127.0.0.1:7777", begin_ns, end_ns, 64, 0, 5, kind, false};
}

std::size_t count(const std::string& text, std::string_view wanted) {
  std::size_t found = 0;
  for (std::size_t at = text.find(wanted); at != std::string::npos; at = text.find(wanted, at + 1))
    ++found;
  return found;
}

std::string json_of(const TraceRing& ring) {
  TraceSnapshot snapshot;
  ring.copy_to(snapshot);
  return to_json(std::move(snapshot), 42, "program");
}

TEST(TraceRing, KeepsTheLatestEventsAndCountsThoseItLost) {
  TraceRing ring(4);
  for (std::uint64_t n = 0; n < 10; ++n) ring.add(event("write", n * 1000, n * 1000 + 1), 7);
  TraceSnapshot snapshot;
  ring.copy_to(snapshot);
  ASSERT_EQ(snapshot.events.size(), 4u);
  for (const KeptEvent& kept : snapshot.events) EXPECT_GE(kept.event.begin_ns, 6000u);
  EXPECT_EQ(snapshot.lost, 6u);
  const std::string json = json_of(ring);
  EXPECT_THAT(json, HasSubstr("\"lost\":6"));
  EXPECT_THAT(json, HasSubstr("6 earlier events lost"));
}

TEST(TraceRing, LosesNothingBeforeItIsFull) {
  TraceRing ring(4);
  for (std::uint64_t n = 0; n < 4; ++n) ring.add(event("write", n, n), 7);
  EXPECT_EQ(count(json_of(ring), "\"ph\":\"X\""), 4u);
  EXPECT_THAT(json_of(ring), HasSubstr("\"lost\":0"));
  EXPECT_THAT(json_of(ring), Not(HasSubstr("lost\"}")));
}

TEST(TraceRing, LumpsPeersTogetherWhenThereAreTooMany) {
  TraceRing ring(4096);
  for (int n = 0; n < 3000; ++n) {
    const std::string peer = "host" + std::to_string(n);
    TraceEvent named = event("write", 1, 2);
    named.peer = peer;
    ring.add(named, 7);
  }
  const std::string json = json_of(ring);
  EXPECT_THAT(json, HasSubstr("\"host1000\""));
  EXPECT_THAT(json, Not(HasSubstr("\"host2999\"")));
  EXPECT_GT(count(json, "\"other peers\""), 1000u);
}

TEST(TraceJson, IsValidWhateverAPeerCallsItself) {
  TraceRing ring;
  TraceEvent hostile = event("write", 1500, 2750);
  hostile.peer = "a\"b\\c\nd\x01\x7f\xff\xc3\xa9";
  ring.add(hostile, 7);
  const std::string json = json_of(ring);
  EXPECT_TRUE(JsonCheck::is_json(json)) << json;
  EXPECT_THAT(json, HasSubstr(R"("peer":"a\"b\\c\u000ad\u0001\u007f???")"));
  EXPECT_FALSE(JsonCheck::is_json(json + "}")) << "the check must be able to fail";
  EXPECT_FALSE(JsonCheck::is_json("{\"a\":\"\n\"}"));
  EXPECT_FALSE(JsonCheck::is_json("[1,]"));
}

TEST(TraceJson, TellsTimesInMicrosecondsToTheNanosecond) {
  TraceRing ring;
  ring.add(event("read", 1234567891, 1234569892), 7);
  EXPECT_THAT(json_of(ring), HasSubstr("\"ts\":1234567.891,\"dur\":2.001"));
}

TEST(TraceJson, PutsOverlappingOperationsInFlightOnRowsOfTheirOwn) {
  TraceRing ring;
  ring.add(event("write", 100, 500, TraceKind::kInFlight), 7);
  ring.add(event("write", 200, 300, TraceKind::kInFlight), 7);
  ring.add(event("write", 350, 400, TraceKind::kInFlight), 7);  // the second row is free again
  ring.add(event("write", 100, 110), 7);
  const std::string json = json_of(ring);
  const auto on = [&](std::uint32_t thread) {
    return count(json, "\"name\":\"write\",\"pid\":42,\"tid\":" + std::to_string(thread) + ",");
  };
  EXPECT_EQ(on(7), 1u);
  EXPECT_EQ(on(1U << 30), 1u);
  EXPECT_EQ(on((1U << 30) + 1), 2u);
  EXPECT_THAT(json, HasSubstr("in flight 1"));
  EXPECT_THAT(json, Not(HasSubstr("in flight 2")));
}

class Trace : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) /
              ("farwrite_trace_" + std::to_string(::getpid()));
    std::filesystem::create_directory(folder_);
  }
  void TearDown() override {
    (void)stop_trace();
    std::filesystem::remove_all(folder_);
  }
  std::string file(std::string_view name) const { return folder_ / name; }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      names.push_back(entry.path().filename());
    }
    return names;
  }
  static std::string content(const std::string& file) {
    std::ostringstream text;
    text << std::ifstream(file).rdbuf();
    return text.str();
  }

  std::filesystem::path folder_;
};

TEST_F(Trace, IsOffUntilItIsStarted) {
  EXPECT_FALSE(trace_on());
  EXPECT_EQ(trace_clock(), 0u);
  trace(event("write", 1, 2));
  trace_instant("backlogged", "shm", "peer");
  EXPECT_TRUE(write_trace().ok());
  EXPECT_TRUE(files().empty());
  start_trace(file("t"));
  EXPECT_TRUE(trace_on());
  EXPECT_GT(trace_clock(), 0u);
  EXPECT_EQ(count(trace_json(), "\"ph\":\"X\""), 0u) << "what came before is not kept";
}

TEST_F(Trace, NamesItsFileAfterTheProcess) {
  const std::string pid = std::to_string(::getpid());
  start_trace(file("t.json"));
  EXPECT_EQ(trace_file(), file("t.json." + pid));
  ASSERT_TRUE(stop_trace().ok());
  start_trace(file("%p-%p.json"));
  EXPECT_EQ(trace_file(), file(pid + "-" + pid + ".json"));
  start_trace(file("another"));
  EXPECT_EQ(trace_file(), file(pid + "-" + pid + ".json")) << "it is on already";
}

TEST_F(Trace, WritesTheEventsOfAllThreadsAlsoOfThoseThatHaveEnded) {
  start_trace(file("%p"));
  for (int n = 0; n < 20; ++n) {
    std::thread([] { trace(event("read", 10, 20)); }).join();
  }
  trace(event("write", 30, 40));
  trace_instant("lease returned", "shm", "peer", 3);
  ASSERT_TRUE(write_trace().ok());
  const std::string json = content(trace_file());
  EXPECT_TRUE(JsonCheck::is_json(json));
  EXPECT_EQ(count(json, "\"name\":\"read\""), 20u);
  EXPECT_EQ(count(json, "\"name\":\"write\""), 1u);
  EXPECT_EQ(count(json, "\"ph\":\"i\""), 1u);
  EXPECT_EQ(count(json, "\"process_name\""), 1u);
  EXPECT_EQ(files().size(), 1u) << "no half-written file is left";
}

TEST_F(Trace, WritesAgainOnlyIfThereIsSomethingNew) {
  start_trace(file("%p"));
  trace(event("write", 1, 2));
  ASSERT_TRUE(write_trace().ok());
  std::filesystem::remove(trace_file());
  ASSERT_TRUE(write_trace().ok());
  EXPECT_TRUE(files().empty());
  trace(event("write", 3, 4));
  ASSERT_TRUE(write_trace().ok());
  EXPECT_EQ(count(content(trace_file()), "\"name\":\"write\""), 2u);
}

TEST_F(Trace, SaysWhyItCannotWrite) {
  start_trace(file("no/such/folder"));
  trace(event("write", 1, 2));
  const Status written = write_trace();
  EXPECT_EQ(written.code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(written.message(), HasSubstr("no/such/folder"));
  EXPECT_THAT(written.message(), HasSubstr("FARWRITE_TRACE"));
}

TEST_F(Trace, OfAForkedChildHasOnlyTheChildsEventsAndAFileOfItsOwn) {
  start_trace(file("%p"));
  trace(event("write", 1, 2));
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    trace(event("read", 3, 4));
    ::_exit(write_trace().ok() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  const std::string json = content(file(std::to_string(child)));
  EXPECT_TRUE(JsonCheck::is_json(json)) << json;
  EXPECT_EQ(count(json, "\"name\":\"write\""), 0u);
  EXPECT_EQ(count(json, "\"name\":\"read\""), 1u);
  EXPECT_EQ(files().size(), 1u);
  ASSERT_TRUE(stop_trace().ok());
  EXPECT_EQ(count(content(file(std::to_string(::getpid()))), "\"name\":\"write\""), 1u);
}

TEST_F(Trace, MayBeWrittenWhileThreadsAddToIt) {
  start_trace(file("%p"));
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int n = 0; n < 3; ++n) {
    threads.emplace_back([&] {
      // A few thousand are enough to be under way while others write, and quick to write.
      for (int added = 0; !stop; ++added) {
        if (added < 3000) trace_instant("notification received", "shm", "peer");
        std::this_thread::yield();
      }
    });
  }
  for (int n = 0; n < 5; ++n) {
    ASSERT_TRUE(write_trace().ok());
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(write_trace().ok());
  EXPECT_TRUE(JsonCheck::is_json(content(trace_file())));
}

}  // namespace
}  // namespace farwrite::core
