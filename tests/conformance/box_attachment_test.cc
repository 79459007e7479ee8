// Attachments of a box's segments: they begin in time or not at all, and end.
#include <thread>

#include "conformance/box_fixture.h"

namespace farwrite::box {
namespace {

constexpr std::uint64_t kElements = 3000;

using BoxAttachments = BoxConformance;

TEST_P(BoxAttachments, WaitUntilSomebodyCreatesTheSegment) {
  const Client early = connect();
  const Client late = connect();
  EXPECT_CODE(kNotFound, early.attach("weights").status());
  EXPECT_CODE(kDeadlineExceeded, early.attach("weights", std::chrono::milliseconds(20)).status());
  Result<Segment> found = Status(StatusCode::kInternal, "not attached");
  std::thread waiting([&] { found = early.attach("weights", kHang); });
  create(late, vector_spec("weights", kElements));
  waiting.join();
  EXPECT_OK(found);
}

TEST_P(BoxAttachments, OfATemporarySegmentKeepItUntilTheLastOfThemGoes) {
  SegmentSpec spec = vector_spec("scratch", kElements);
  spec.temporary = true;
  const Client client = connect();
  Client leaving = connect();
  Segment mine = create(leaving, spec);
  Result<Segment> other = client.attach("scratch");
  ASSERT_OK(other);
  ASSERT_OK(leaving.close());
  EXPECT_TRUE(eventually([&] { return server().stats().clients == 1; }));
  EXPECT_TRUE(all_are(0.0F, read(other.value())));
  ASSERT_OK(other->detach());
  EXPECT_TRUE(eventually([&] { return server().stats().segments == 0; }));
}

TEST_P(BoxAttachments, OfManyPassingClientsKeepATemporarySegment) {
  constexpr int kClients = 4;
  constexpr int kRounds = 200;
  SegmentSpec spec = vector_spec("scratch", 4);
  spec.temporary = true;
  Change fill;
  fill.operation = Operation::kFill;
  std::vector<std::thread> threads;
  for (int i = 0; i < kClients; ++i) {
    threads.emplace_back([spec, fill, client = connect()] {
      for (int round = 0; round < kRounds; ++round) {
        Result<Segment> mine = client.create(spec, Creation::kOpenOrCreate);
        ASSERT_OK(mine);
        ASSERT_OK(error_of(mine.value(), fill)) << "round " << round;
        ASSERT_OK(mine->detach());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(eventually([&] { return server().stats().segments == 0; }));
}

TEST_P(BoxAttachments, OfASegmentWithALongDescriptionReadAndEndLikeOthers) {
  SegmentSpec spec = vector_spec("described", kElements);
  spec.description.assign(20'000, 'x');
  spec.temporary = true;
  const Client writer = connect();
  const Client reader = connect();
  Segment mine = create(writer, spec);
  Result<Segment> other = reader.attach("described");
  ASSERT_OK(other);
  EXPECT_EQ(spec.description, other->info().spec.description);
  EXPECT_EQ(1U, write(mine, std::vector<float>(kElements, 3.0F)));
  EXPECT_EQ(1U, other->version().value());
  EXPECT_TRUE(all_are(3.0F, read(other.value())));
  ASSERT_OK(mine.detach());
  ASSERT_OK(other->detach());
  EXPECT_TRUE(eventually([&] { return server().stats().segments == 0; }));
}

TEST_P(BoxAttachments, ThatComeAfterTheirTimeoutAreGivenBack) {
  constexpr int kMostRounds = 100'000;
  constexpr int kWanted = 5;
  const Client owner = connect();
  const Client hasty = connect();
  const Segment segment = create(owner, vector_spec("weights", kElements));
  int late = 0;
  for (int i = 0; i < kMostRounds && late < kWanted; ++i) {
    const Status status = hasty.attach("weights", std::chrono::nanoseconds(1)).status();
    if (status.ok()) continue;
    EXPECT_CODE(kDeadlineExceeded, status);
    ++late;
  }
  EXPECT_EQ(kWanted, late) << "answers come within the time that a thread takes to give up";
  const auto attached = [&] { return owner.list().value().at(0).attached; };
  EXPECT_TRUE(eventually([&] { return attached() == 1; })) << attached();
}

FARWRITE_EVERY_FABRIC(BoxAttachments);

}  // namespace
}  // namespace farwrite::box
