// Reads beside changes: what a reader knew of the segment before is out of date.
#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "conformance/box_fixture.h"

namespace farwrite::box {
namespace {

constexpr std::uint64_t kSmall = 5000;
constexpr std::uint64_t kThreeChunks = 2 * kChunkBytes / sizeof(float) + 1000;
constexpr std::uint64_t kChunkElements = kChunkBytes / sizeof(float);

using BoxReads = BoxConformance;

Change fill(double value) {
  Change change;
  change.operation = Operation::kFill;
  change.factor = value;
  return change;
}

// Into memory that has an owner: without one, large bytes are asked for apart over tcp as well.
std::vector<float> owned_read(const Segment& segment, Consistency consistency) {
  const auto values = std::make_shared<std::vector<float>>(segment.info().bytes / sizeof(float));
  ReadOptions options;
  options.consistency = consistency;
  options.timeout = kHang;
  options.owner = values;
  EXPECT_OK(segment.read({values->data(), values->size() * sizeof(float)}, 0, options));
  return *values;
}

TEST_P(BoxReads, FindTheNewestVersionThoughAnotherBufferHasBecomeCurrent) {
  const Client writer = connect();
  SegmentSpec spec = vector_spec("weights", kSmall);
  spec.buffers = 3;
  const Segment theirs = create(writer, spec);
  const Result<Segment> ours = connect().attach("weights");
  ASSERT_OK(ours);
  for (int value = 1; value <= 12; ++value) {
    // A lease makes the next change go into another buffer.
    const Result<LeasedSegment> lease = theirs.lease(kHang);
    ASSERT_OK(lease);
    const std::uint64_t version = apply(theirs, fill(value));
    std::vector<float> values(kSmall);
    const Result<ReadResult> read =
        ours.value().read({values.data(), values.size() * sizeof(float)});
    ASSERT_OK(read);
    EXPECT_EQ(version, read.value().version);
    EXPECT_TRUE(all_are(static_cast<float>(value), values));
    EXPECT_TRUE(all_are(static_cast<float>(value), owned_read(ours.value(), Consistency::kChunk)));
  }
}

TEST_P(BoxReads, AreNeverTorn) {
  const Client writer = connect();
  const Client reader = connect();
  for (const std::uint64_t elements : {kSmall, kThreeChunks}) {
    const std::string name = std::to_string(elements);
    const Segment segment = create(writer, vector_spec(name, elements));
    const Result<Segment> watched = reader.attach(name);
    ASSERT_OK(watched);
    std::atomic<bool> stop = false;
    std::thread changing([&] {
      for (int round = 1; !stop; ++round) apply(segment, fill(round));
    });
    float last = 0.0F;
    const int rounds = elements == kSmall ? 40 : 10;
    for (int round = 0; round < rounds; ++round) {
      const std::vector<float> whole = owned_read(watched.value(), Consistency::kSegment);
      EXPECT_TRUE(all_are(whole.front(), whole));
      EXPECT_GE(whole.front(), last);
      last = whole.front();
      const std::vector<float> chunks = owned_read(watched.value(), Consistency::kChunk);
      for (std::uint64_t i = 0; i < chunks.size(); ++i) {
        ASSERT_EQ(chunks[i / kChunkElements * kChunkElements], chunks[i]) << i;
        ASSERT_GE(chunks[i], last) << i;
      }
    }
    stop = true;
    changing.join();
  }
}

FARWRITE_EVERY_FABRIC(BoxReads);

}  // namespace
}  // namespace farwrite::box
