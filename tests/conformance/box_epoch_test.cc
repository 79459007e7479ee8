// What an epoch names (VersionId of include/farwrite/box.h).
#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "conformance/box_fixture.h"

namespace farwrite::box {
namespace {

constexpr std::uint64_t kEpochElements = 3000;

using BoxEpoch = BoxConformance;

TEST_P(BoxEpoch, ANewEpochComesWithTheContentsThatItNames) {
  const Segment segment = create(connect(), vector_spec("weights", kEpochElements));
  Result<Segment> watched = connect().attach("weights");
  ASSERT_OK(watched);
  const std::uint64_t first = segment.info().epoch;
  EXPECT_NE(0U, first);
  EXPECT_EQ(first, watched->info().epoch);
  write(segment, std::vector<float>(kEpochElements, 2.0F));
  Result<LeasedSegment> before = watched->lease(kHang);
  ASSERT_OK(before);
  // Nothing new yet, in this epoch.
  EXPECT_CODE(kDeadlineExceeded,
              watched->wait(2, std::chrono::milliseconds(20), before->epoch()).status());

  std::atomic<std::uint64_t> called = 0;
  watched->on_version(
      100,
      [&](const Result<VersionId>& reached) { called = reached.ok() ? reached.value().epoch : 1; },
      first);
  const std::vector<float> ones(kEpochElements, 1.0F);
  Change change = change_of(Operation::kWrite);
  change.memory = view(ones);
  change.new_epoch = true;
  apply(segment, change);
  // Another epoch ends the waits of all that had the one before, whatever its version is.
  Result<VersionId> reached = watched->wait(100, kHang, first);
  ASSERT_OK(reached);
  EXPECT_EQ(2U, reached->version);
  EXPECT_GT(reached->epoch, first);
  EXPECT_TRUE(eventually([&] { return called == reached->epoch; }));
  std::vector<float> out(kEpochElements);
  ReadOptions options;
  options.min_version = 100;
  options.epoch = first;
  Result<ReadResult> read = watched->read({out.data(), out.size() * 4}, 0, options);
  ASSERT_OK(read);
  EXPECT_EQ(reached.value(), (VersionId{read->epoch, read->version}));
  EXPECT_EQ(reached.value(), watched->version_id().value());
  // What was leased keeps its name, and the next version the new epoch.
  EXPECT_EQ(first, before->epoch());
  EXPECT_EQ(1U, before->version());
  apply(segment, change_of(Operation::kSignal));
  Result<LeasedSegment> next = watched->lease(kHang);
  ASSERT_OK(next);
  EXPECT_EQ(reached->epoch, next->epoch());
  EXPECT_EQ(3U, next->version());
}

// Readers that meet changes of the epoch, in place and in other buffers.
TEST_P(BoxEpoch, EveryReadOfAVersionNamesOneEpoch) {
  const Client writer = connect();
  const Segment segment = create(writer, vector_spec("weights", kEpochElements));
  std::mutex mutex;
  std::map<std::uint64_t, std::uint64_t> epochs;  // by version
  const auto note = [&](std::uint64_t epoch, std::uint64_t version) {
    const std::lock_guard lock(mutex);
    EXPECT_EQ(epochs.emplace(version, epoch).first->second, epoch) << "of version " << version;
  };
  std::atomic<bool> stop = false;
  std::atomic<int> begun = 0;
  std::vector<std::thread> readers;
  for (int i = 0; i < 2; ++i) {
    readers.emplace_back([&, leases = i == 1, client = connect()] {
      Result<Segment> own = client.attach("weights");
      ASSERT_OK(own);
      std::vector<float> out(kEpochElements);
      for (bool first = true; !stop; first = false) {
        if (leases) {
          Result<LeasedSegment> lease = own->lease(kHang);
          ASSERT_OK(lease);
          note(lease->epoch(), lease->version());
        }
        Result<ReadResult> read = own->read({out.data(), out.size() * 4});
        ASSERT_OK(read);
        note(read->epoch, read->version);
        // Each version is its own number.
        EXPECT_TRUE(all_are(static_cast<float>(read->version), out));
        if (first) ++begun;
      }
    });
  }
  // The changes are over sooner than a reader has connected.
  const auto give_up = std::chrono::steady_clock::now() + kHang;
  while (begun < 2 && std::chrono::steady_clock::now() < give_up) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  for (std::uint64_t version = 1; version <= 300; ++version) {
    Change change = change_of(Operation::kFill, static_cast<double>(version));
    change.new_epoch = version % 2 == 0;
    apply(segment, change);
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_FALSE(epochs.empty());
}

FARWRITE_EVERY_FABRIC(BoxEpoch);

}  // namespace
}  // namespace farwrite::box
