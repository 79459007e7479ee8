// Random changes by many clients against a model that applies them one after the other, in the
// order of the versions that the box gave them. Some clients go in the middle of a change.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "conformance/box_fixture.h"

namespace farwrite::box {
namespace {

using Numbers = std::vector<std::int64_t>;

constexpr int kClients = 4;
constexpr int kOperations = 60;
// One chunk, one chunk with many elements, and three chunks.
constexpr std::uint64_t kSizes[] = {8, 1000, 2 * kChunkBytes / sizeof(std::int64_t) + 17};
constexpr std::size_t kSegments = std::size(kSizes);

struct Recorded {
  Operation operation = Operation::kFill;
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  std::int64_t factor = 0;
  Numbers values;
  // Ready once the box has answered.
  Update update{.done = Completion(Status()), .version = nullptr};

  void apply(Numbers& state) const {
    for (std::uint64_t i = 0; i < count; ++i) {
      // Arithmetic of the box wraps around.
      auto& element = reinterpret_cast<std::uint64_t&>(state[first + i]);
      const auto a = static_cast<std::uint64_t>(factor);
      switch (operation) {
        case Operation::kWrite:
          element = static_cast<std::uint64_t>(values[i]);
          break;
        case Operation::kAccumulate:
          element += a * static_cast<std::uint64_t>(values[i]);
          break;
        case Operation::kScale:
          element *= a;
          break;
        default:
          element = a;
      }
    }
  }
};

struct Seen {
  std::uint64_t version = 0;
  Numbers values;
};

// What happened to one segment.
struct History {
  std::mutex mutex;
  std::vector<std::shared_ptr<Recorded>> changes;
  std::vector<Seen> reads;
};

class BoxModel : public BoxConformance {
 protected:
  void SetUp() override {
    serve({});
    const Client maker = connect();
    for (std::size_t i = 0; i < kSegments; ++i) {
      SegmentSpec spec = vector_spec("segment " + std::to_string(i), kSizes[i]);
      spec.type = ElementType::kInt64;
      segments_.push_back(create(maker, spec));
    }
  }

  // One client's life; the last change of clients 0 to kSegments - 1 is not waited for.
  void play(Client client, int number, std::uint32_t seed) {
    std::mt19937 random(seed);
    std::vector<Segment> segments;
    for (std::size_t i = 0; i < kSegments; ++i) {
      segments.push_back(client.attach("segment " + std::to_string(i)).value());
    }
    std::vector<std::shared_ptr<Recorded>> outstanding;
    for (int i = 0; i < kOperations; ++i) {
      const std::size_t which = random() % kSegments;
      if (random() % 3 == 0) {
        look(segments[which], which, random() % 2 == 0);
        continue;
      }
      outstanding.push_back(post(segments[which], which, random));
      if (outstanding.size() == 3) finish(outstanding);
    }
    finish(outstanding);
    if (static_cast<std::size_t>(number) < kSegments) {
      const auto which = static_cast<std::size_t>(number);
      post(segments[which], which, random);
      EXPECT_OK(client.close());
    }
  }

  static void finish(std::vector<std::shared_ptr<Recorded>>& outstanding) {
    for (const auto& change : outstanding) EXPECT_OK(change->update.done.wait(kHang));
    outstanding.clear();
  }

  std::shared_ptr<Recorded> post(const Segment& segment, std::size_t which, std::mt19937& random) {
    constexpr Operation kOperationsToPlay[] = {Operation::kWrite, Operation::kAccumulate,
                                               Operation::kScale, Operation::kFill};
    const auto change = std::make_shared<Recorded>();
    change->operation = kOperationsToPlay[random() % 4];
    const std::uint64_t size = kSizes[which];
    const bool whole = random() % 2 == 0;
    change->first = whole ? 0 : random() % size;
    change->count = whole ? size : 1 + random() % (size - change->first);
    change->factor = static_cast<std::int64_t>(random() % 7) - 3;
    if (change->operation == Operation::kWrite || change->operation == Operation::kAccumulate) {
      change->values.resize(change->count);
      for (std::int64_t& value : change->values) value = static_cast<std::int64_t>(random());
    }
    Change request;
    request.operation = change->operation;
    request.offset = change->first * sizeof(std::int64_t);
    request.length = change->count * sizeof(std::int64_t);
    request.factor = static_cast<double>(change->factor);
    request.memory = {change->values.data(), change->values.size() * sizeof(std::int64_t)};
    change->update = segment.post(request);
    History& history = histories_[which];
    const std::lock_guard lock(history.mutex);
    history.changes.push_back(change);
    return change;
  }

  void look(const Segment& segment, std::size_t which, bool leased) {
    Seen seen = {.version = 0, .values = Numbers(kSizes[which])};
    const MutableByteView out(seen.values.data(), seen.values.size() * sizeof(std::int64_t));
    if (leased) {
      const Result<LeasedSegment> lease = segment.lease(kHang);
      // Others may lease as many versions as there are buffers.
      if (!lease.ok() && lease.status().code() == StatusCode::kResourceExhausted) return;
      ASSERT_OK(lease);
      seen.version = lease.value().version();
      std::copy_n(lease.value().bytes().data, out.size, out.data);
    } else {
      const Result<ReadResult> read = segment.read(out);
      ASSERT_OK(read);
      seen.version = read.value().version;
    }
    History& history = histories_[which];
    const std::lock_guard lock(history.mutex);
    history.reads.push_back(std::move(seen));
  }

  // Replays the changes of a segment and compares every read.
  void check(std::size_t which) {
    History& history = histories_[which];
    std::map<std::uint64_t, const Recorded*> by_version;
    const Recorded* unknown = nullptr;
    for (const auto& change : history.changes) {
      const Status status = change->update.done.wait(kHang);
      if (status.ok()) {
        ASSERT_TRUE(by_version.emplace(*change->update.version, change.get()).second)
            << "two changes became version " << *change->update.version;
      } else {
        EXPECT_CODE(kCancelled, status);
        ASSERT_EQ(nullptr, unknown);
        unknown = change.get();
      }
    }
    const std::uint64_t last = segments_[which].version().value();
    Seen now = {.version = 0, .values = Numbers(kSizes[which])};
    const Result<ReadResult> read =
        segments_[which].read({now.values.data(), now.values.size() * sizeof(std::int64_t)});
    ASSERT_OK(read);
    ASSERT_EQ(last, read.value().version);
    now.version = last;
    history.reads.push_back(std::move(now));
    std::stable_sort(history.reads.begin(), history.reads.end(),
                     [](const Seen& a, const Seen& b) { return a.version < b.version; });
    Numbers state(kSizes[which]);
    auto next = history.reads.begin();
    for (std::uint64_t version = 0; version <= last; ++version) {
      if (version > 0) {
        const auto found = by_version.find(version);
        const Recorded* change = found != by_version.end() ? found->second : nullptr;
        if (change == nullptr) change = std::exchange(unknown, nullptr);
        ASSERT_NE(nullptr, change) << "nothing became version " << version;
        change->apply(state);
      }
      for (; next != history.reads.end() && next->version == version; ++next) {
        ASSERT_EQ(state, next->values) << "a read of version " << version;
      }
    }
  }

  std::vector<Segment> segments_;
  History histories_[kSegments];
};

TEST_P(BoxModel, EveryReadIsOneVersionOfASequence) {
  const std::uint32_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::vector<std::thread> threads;
  for (int number = 0; number < kClients; ++number) {
    threads.emplace_back([this, number, seed, client = connect()]() mutable {
      play(std::move(client), number, seed + static_cast<std::uint32_t>(number));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(eventually([&] { return server().stats().clients == 2; }));
  for (std::size_t which = 0; which < kSegments; ++which) check(which);
}

FARWRITE_EVERY_FABRIC(BoxModel);

}  // namespace
}  // namespace farwrite::box
