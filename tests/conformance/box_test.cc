// What the parameter box promises its clients (include/farwrite/box.h), requirement M1.
#include <gmock/gmock.h>

#include <atomic>
#include <numeric>
#include <thread>

#include "conformance/box_fixture.h"

namespace farwrite::box {
namespace {

using testing::ElementsAre;

constexpr std::uint64_t kBoxElements = 3000;
constexpr std::uint64_t kLarge = 2 * kChunkBytes / sizeof(float) + 1000;  // three chunks

using Box = BoxConformance;

std::vector<float> counting(std::uint64_t elements) {
  std::vector<float> values(elements);
  std::iota(values.begin(), values.end(), 1.0F);
  return values;
}

TEST_P(Box, ASegmentBeginsWithZerosAndIsFoundByNameAndKey) {
  const Client one = connect();
  const Client other = connect();
  const Segment made = create(one, vector_spec("weights", kBoxElements));
  EXPECT_TRUE(all_are(0.0F, read(made)));
  EXPECT_EQ(0U, made.version().value());

  Result<Segment> by_name = other.attach("weights");
  ASSERT_OK(by_name);
  EXPECT_EQ(made.info().key, by_name->info().key);
  EXPECT_THAT(by_name->info().spec.dims, ElementsAre(kBoxElements));
  Result<Segment> by_key = other.attach(made.info().key);
  ASSERT_OK(by_key);
  EXPECT_EQ("weights", by_key->info().spec.name);
}

TEST_P(Box, AWriteIsReadByEveryClientAndCountsOneVersion) {
  const Segment segment = create(connect(), vector_spec("weights", kLarge));
  Result<Segment> elsewhere = connect().attach("weights");
  ASSERT_OK(elsewhere);
  const std::vector<float> values = counting(kLarge);
  EXPECT_EQ(1U, write(segment, values));
  EXPECT_EQ(values, read(elsewhere.value()));
  EXPECT_EQ(1U, elsewhere->version().value());
  EXPECT_THAT(elsewhere->chunk_versions().value(), ElementsAre(1, 1, 1));
}

TEST_P(Box, ARangeChangesAloneAndCountsInItsChunksAlone) {
  const Segment segment = create(connect(), vector_spec("weights", kLarge));
  const std::vector<float> part(1000, 7.0F);
  Change change;
  change.offset = kChunkBytes - 2000;  // into the second chunk
  change.memory = view(part);
  EXPECT_EQ(1U, apply(segment, change));
  const std::vector<float> now = read(segment);
  const std::uint64_t first = change.offset / sizeof(float);
  for (std::uint64_t i = 0; i < now.size(); ++i) {
    ASSERT_EQ(i >= first && i < first + part.size() ? 7.0F : 0.0F, now[i]) << i;
  }
  EXPECT_THAT(segment.chunk_versions().value(), ElementsAre(1, 1, 0));
  std::vector<float> piece(10);
  ASSERT_OK(segment.read({piece.data(), 40}, change.offset));
  EXPECT_TRUE(all_are(7.0F, piece));
}

TEST_P(Box, AccumulateAddsWhatWasTimesTheFactor) {
  const Client client = connect();
  const Segment segment = create(client, vector_spec("weights", kLarge));
  const std::vector<float> ones(kLarge, 1.0F);
  apply(segment, accumulate(ones));
  apply(segment, accumulate(ones, 0.5));
  EXPECT_TRUE(all_are(1.5F, read(segment)));

  // Memory that the server reads where it is.
  Result<MemoryRegion> memory = client.allocate(kLarge * sizeof(float));
  ASSERT_OK(memory);
  std::fill_n(reinterpret_cast<float*>(memory->data()), kLarge, 2.0F);
  const std::uint64_t staged = client.stats().staged_bytes;
  Change change = change_of(Operation::kAccumulate, -1.0);
  change.memory = {memory->data(), kLarge * sizeof(float)};
  EXPECT_EQ(3U, apply(segment, change));
  EXPECT_TRUE(all_are(-0.5F, read(segment)));
  EXPECT_EQ(staged, client.stats().staged_bytes);
}

TEST_P(Box, ScaleFillAndSignal) {
  const Segment segment = create(connect(), vector_spec("weights", kBoxElements));
  apply(segment, change_of(Operation::kFill, 3.0));
  apply(segment, change_of(Operation::kScale, 2.0));
  EXPECT_TRUE(all_are(6.0F, read(segment)));
  EXPECT_EQ(3U, apply(segment, change_of(Operation::kSignal)));
  EXPECT_TRUE(all_are(6.0F, read(segment)));
}

TEST_P(Box, SegmentsAreSourcesToo) {
  const Client client = connect();
  const Segment a = create(client, vector_spec("a", kLarge));
  const Segment b = create(client, vector_spec("b", kLarge));
  const Segment c = create(client, vector_spec("c", kLarge));
  apply(a, change_of(Operation::kFill, 2.0));
  apply(b, change_of(Operation::kFill, 10.0));

  Change change = change_of(Operation::kAccumulate, 3.0);  // c += 3 a
  change.x_key = a.info().key;
  apply(c, change);
  EXPECT_TRUE(all_are(6.0F, read(c)));

  change = change_of(Operation::kAxpy, 2.0);  // c = 2 a + b
  change.x_key = a.info().key;
  change.y_key = b.info().key;
  apply(c, change);
  EXPECT_TRUE(all_are(14.0F, read(c)));

  change = change_of(Operation::kWrite);  // c = b
  change.x_key = b.info().key;
  apply(c, change);
  EXPECT_TRUE(all_are(10.0F, read(c)));

  change = change_of(Operation::kSwap);
  change.x_key = a.info().key;
  apply(b, change);
  EXPECT_TRUE(all_are(10.0F, read(a)));
  EXPECT_TRUE(all_are(2.0F, read(b)));
  EXPECT_EQ(2U, a.version().value());
  EXPECT_EQ(2U, b.version().value());
}

TEST_P(Box, AChangeWithoutASourceIsRefused) {
  const Segment segment = create(connect(), vector_spec("weights", 64));
  for (const Operation operation : {Operation::kWrite, Operation::kAccumulate}) {
    Change change = change_of(operation, 1.0);
    EXPECT_CODE(kInvalidArgument, segment.post(change).done.wait(kHang));
    change.length = 0;
    EXPECT_OK(segment.post(change).done.wait(kHang));
  }
}

TEST_P(Box, OneClientsChangesApplyInItsOrder) {
  const Segment segment = create(connect(), vector_spec("weights", kLarge));
  const std::vector<float> ones(kLarge, 1.0F);
  std::vector<Update> updates;
  for (int i = 0; i < 10; ++i) {
    updates.push_back(segment.post(accumulate(ones)));
    updates.push_back(segment.post(change_of(Operation::kScale, 2.0)));
  }
  std::uint64_t version = 0;
  for (const Update& update : updates) {
    ASSERT_OK(update.done.wait(kHang));
    EXPECT_EQ(++version, *update.version);
  }
  EXPECT_TRUE(all_are(2046.0F, read(segment)));
}

TEST_P(Box, ChangesOfManyClientsAreAllApplied) {
  constexpr int kClients = 4;
  constexpr int kRounds = 10;
  const Segment segment = create(connect(), vector_spec("weights", kLarge));
  std::vector<std::thread> threads;
  for (int i = 0; i < kClients; ++i) {
    threads.emplace_back([&, client = connect()] {
      Result<Segment> mine = client.attach("weights");
      ASSERT_OK(mine);
      const std::vector<float> ones(kLarge, 1.0F);
      for (int round = 0; round < kRounds; ++round) apply(mine.value(), accumulate(ones));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(all_are(static_cast<float>(kClients * kRounds), read(segment)));
  EXPECT_EQ(std::uint64_t{kClients * kRounds}, segment.version().value());
}

TEST_P(Box, AReadIsNeverTorn) {
  const Client writer = connect();
  const Segment segment = create(writer, vector_spec("weights", kLarge));
  Result<Segment> watched = connect().attach("weights");
  ASSERT_OK(watched);
  std::atomic<bool> stop = false;
  std::thread changing([&] {
    const std::vector<float> ones(kLarge, 1.0F);
    std::vector<float> whole(kLarge);
    for (int round = 0; !stop; ++round) {
      if (round % 3 == 2) {
        std::fill(whole.begin(), whole.end(), static_cast<float>(round));
        write(segment, whole);
      } else {
        apply(segment, accumulate(ones));
      }
    }
  });
  constexpr std::uint64_t kChunkElements = kChunkBytes / sizeof(float);
  for (int round = 0; round < 15; ++round) {
    const std::vector<float> whole = read(watched.value());
    EXPECT_TRUE(all_are(whole.front(), whole)) << "round " << round;
    const std::vector<float> chunks = read(watched.value(), {.consistency = Consistency::kChunk});
    for (std::uint64_t i = 0; i < chunks.size(); ++i) {
      ASSERT_EQ(chunks[i / kChunkElements * kChunkElements], chunks[i]) << i;
    }
  }
  stop = true;
  changing.join();
}

TEST_P(Box, WaitsEndAtTheirVersionAtTheirTimeoutOrWhenTheSegmentIsFreed) {
  Segment segment = create(connect(), vector_spec("weights", kBoxElements));
  Result<Segment> watched = connect().attach("weights");
  ASSERT_OK(watched);
  EXPECT_CODE(kDeadlineExceeded, watched->wait(1, std::chrono::milliseconds(20)).status());
  std::atomic<std::uint64_t> called = 0;
  watched->on_version(2, [&](const Result<VersionId>& reached) {
    called = reached.ok() ? reached.value().version : ~std::uint64_t{0};
  });
  std::thread later([&] {
    for (int i = 0; i < 3; ++i) apply(segment, change_of(Operation::kSignal));
  });
  const Result<VersionId> reached = watched->wait(3, kHang);
  later.join();
  ASSERT_OK(reached);
  EXPECT_EQ(3U, reached.value().version);
  EXPECT_EQ(segment.info().epoch, reached.value().epoch);
  EXPECT_TRUE(eventually([&] { return called != 0U; }));
  EXPECT_TRUE(called == 2U || called == 3U) << called;

  std::thread frees([&] { EXPECT_OK(segment.free()); });
  EXPECT_CODE(kNotFound, watched->wait(100, kHang).status());
  frees.join();
}

TEST_P(Box, ErrorsSayWhatIsWrongAndChangeNothing) {
  const Client client = connect();
  Segment segment = create(client, vector_spec("weights", kBoxElements));
  EXPECT_CODE(kAlreadyExists, client.create(vector_spec("weights", kBoxElements)).status());
  EXPECT_CODE(kInvalidArgument,
              client.create(vector_spec("weights", 7), Creation::kOpenOrCreate).status());
  EXPECT_OK(client.create(vector_spec("weights", kBoxElements), Creation::kOpenOrCreate));
  EXPECT_CODE(kNotFound, client.attach(std::uint64_t{12345}).status());
  EXPECT_CODE(kInvalidArgument, client.create(vector_spec("", 7)).status());
  EXPECT_CODE(kResourceExhausted,
              client.create(vector_spec("huge", std::uint64_t{1} << 40)).status());

  const std::vector<float> values(kBoxElements, 1.0F);
  Change change = accumulate(values);
  change.offset = 4;
  EXPECT_CODE(kOutOfRange, error_of(segment, change));
  change.memory.size -= 6;
  EXPECT_CODE(kInvalidArgument, error_of(segment, change));
  change = change_of(Operation::kAccumulate);
  change.x_key = 99;
  EXPECT_CODE(kNotFound, error_of(segment, change));
  std::vector<float> out(kBoxElements + 1);
  EXPECT_CODE(kOutOfRange, segment.read({out.data(), out.size() * 4}).status());

  SegmentSpec bytes = vector_spec("bytes", 10);
  bytes.type = ElementType::kBytes;
  EXPECT_CODE(kInvalidArgument, error_of(create(client, bytes), change_of(Operation::kFill, 1.0)));
  SegmentSpec integers = vector_spec("integers", 10);
  integers.type = ElementType::kInt32;
  const Segment counts = create(client, integers);
  EXPECT_CODE(kInvalidArgument, error_of(counts, change_of(Operation::kFill, 0.5)));
  change = change_of(Operation::kAccumulate);
  change.x_key = segment.info().key;
  change.length = 40;
  EXPECT_CODE(kInvalidArgument, error_of(counts, change));
  EXPECT_EQ(0U, segment.version().value());
  EXPECT_TRUE(all_are(0.0F, read(segment)));
}

TEST_P(Box, AFreedSegmentIsGoneForEveryClient) {
  const Client client = connect();
  Segment segment = create(client, vector_spec("weights", kBoxElements));
  Result<Segment> watched = connect().attach("weights");
  ASSERT_OK(watched);
  read(watched.value());
  ASSERT_OK(segment.free());
  std::vector<float> out(kBoxElements);
  EXPECT_CODE(kNotFound, watched->read({out.data(), out.size() * 4}).status());
  EXPECT_CODE(kNotFound, watched->version().status());
  EXPECT_CODE(kNotFound, error_of(watched.value(), change_of(Operation::kFill, 1.0)));
  EXPECT_CODE(kNotFound, watched->free());
  EXPECT_CODE(kNotFound, segment.free());
  EXPECT_CODE(kNotFound, client.attach("weights").status());
  // The name is free again, for another segment.
  EXPECT_NE(segment.info().key, create(client, vector_spec("weights", 8)).info().key);
}

TEST_P(Box, TheMemoryOfAFreedSegmentIsFreeAlthoughClientsHaveItAttached) {
  const Client client = connect();
  // Two fit into the server's memory.
  const std::uint64_t elements = (std::uint64_t{24} << 20) / sizeof(float);
  std::vector<Segment> attached;
  for (int i = 0; i < 6; ++i) {
    const SegmentSpec spec = vector_spec("segment " + std::to_string(i), elements);
    Result<Segment> made = Status(StatusCode::kInternal, "not made");
    ASSERT_TRUE(eventually([&] { return (made = client.create(spec)).ok(); })) << i;
    std::vector<float> some(100);
    ASSERT_OK(made->read({some.data(), 400}));
    ASSERT_OK(made->free());
    attached.push_back(made.value());
  }
}

TEST_P(Box, AChangeThatItsConnectionLeavesBehindIsSettledWhenTheServerHasLetGoOfItsMemory) {
  const Client staying = connect();
  Client leaving = connect();
  const Segment segment = create(staying, vector_spec("weights", kLarge));
  const Segment busy = create(leaving, vector_spec("busy", 2 * kLarge));
  Result<Segment> its = leaving.attach("weights");
  ASSERT_OK(its);
  Result<MemoryRegion> memory = leaving.allocate(kLarge * sizeof(float));
  ASSERT_OK(memory);
  auto* const values = reinterpret_cast<float*>(memory->data());
  std::fill_n(values, kLarge, 1.0F);
  // The server applies these first.
  for (int i = 0; i < 8; ++i) static_cast<void>(busy.post(change_of(Operation::kScale, 1.0)));
  Change change;
  change.memory = {values, kLarge * sizeof(float)};
  const Update left = its->post(change);
  static_cast<void>(leaving.close(kHang));
  EXPECT_TRUE(left.done.done());
  EXPECT_TRUE(eventually([&] { return left.done.settled(); }));
  std::fill_n(values, kLarge, 9.0F);
  EXPECT_TRUE(eventually([&] { return server().stats().clients == 1; }));
  const std::vector<float> now = read(segment);
  EXPECT_TRUE(all_are(0.0F, now) || all_are(1.0F, now));
}

TEST_P(Box, TheServersProcessPublishesWithoutACopyOfItsOwn) {
  const Segment segment = create(connect(), vector_spec("weights", kBoxElements));
  Result<Draft> draft = server().draft(segment.info().key);
  ASSERT_OK(draft);
  ASSERT_EQ(kBoxElements * sizeof(float), draft->bytes.size);
  std::fill_n(reinterpret_cast<float*>(draft->bytes.data), kBoxElements, 5.0F);
  EXPECT_TRUE(all_are(0.0F, read(segment)));
  EXPECT_EQ(1U, server().commit(draft.value()).value());
  EXPECT_TRUE(all_are(5.0F, read(segment)));

  Result<Draft> dropped = server().draft(segment.info().key);
  ASSERT_OK(dropped);
  server().drop(dropped.value());
  EXPECT_TRUE(all_are(5.0F, read(segment)));

  Result<Draft> late = server().draft(segment.info().key);
  ASSERT_OK(late);
  ASSERT_OK(server().close());
  // Another thread may be filling it.
  std::fill_n(reinterpret_cast<float*>(late->bytes.data), kBoxElements, 6.0F);
  EXPECT_CODE(kFailedPrecondition, server().commit(late.value()).status());
  EXPECT_CODE(kFailedPrecondition, server().draft(segment.info().key).status());
}

TEST_P(Box, ADescriptionOfAnyLengthComesWithTheSegment) {
  const Client client = connect();
  for (const std::size_t length : {std::size_t{0}, std::size_t{100}, std::size_t{100'000}}) {
    SegmentSpec spec = vector_spec("model " + std::to_string(length), kBoxElements);
    spec.description.assign(length, 'x');
    create(client, spec);
    const Result<Segment> found = client.attach(spec.name);
    ASSERT_OK(found);
    EXPECT_EQ(spec.description, found.value().info().spec.description);
  }
  const Result<std::vector<SegmentInfo>> all = client.list();
  ASSERT_OK(all);
  EXPECT_EQ(3U, all.value().size());
  for (const SegmentInfo& info : all.value()) {
    const std::size_t length = std::stoul(info.spec.name.substr(6));
    EXPECT_EQ(length > kMaxListedDescription ? 0 : length, info.spec.description.size());
    EXPECT_EQ(info.spec.description, client.describe(info.spec.name).value().spec.description);
  }
}

TEST_P(Box, AnEventIsASegmentWithoutBytes) {
  const Segment event = create(connect(), vector_spec("epoch", 0));
  EXPECT_EQ(0U, event.info().bytes);
  EXPECT_EQ(1U, apply(event, change_of(Operation::kSignal)));
  EXPECT_EQ(1U, event.wait(1, kHang).value().version);
  ASSERT_OK(event.read({}));
}

FARWRITE_EVERY_FABRIC(Box);

}  // namespace
}  // namespace farwrite::box
