// A lane that holds as much as it may: what the peer waits for goes nevertheless, and nothing that
// is on its way is lost.
#include <cstring>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "conformance/stream_fixture.h"

namespace farwrite {
namespace {

// More than a ring and its backlog hold.
constexpr std::uint32_t kMany = 80'000;

class Backlogged : public ConformancePair {
 protected:
  void TearDown() override {
    EXPECT_OK(near_device_.close(kHang));
    EXPECT_OK(far_device_.close(kHang));
  }
};

TEST_P(Backlogged, AnswersAFlushOfThePeerWhoseOwnWritesWait) {
  constexpr std::uint64_t kBytes = 64;
  auto far_landing = far_.allocate(kBytes), near_landing = near_.allocate(kBytes);
  ASSERT_OK(far_landing);
  ASSERT_OK(near_landing);
  auto to_far = near_.open(far_landing->descriptor(), kHang);
  auto to_near = far_.open(near_landing->descriptor(), kHang);
  ASSERT_OK(to_far);
  ASSERT_OK(to_near);
  // Nothing of what it posts is taken meanwhile.
  std::promise<void> goes;
  std::atomic<bool> held{false};
  ASSERT_OK(far_.on_notification([&, go = goes.get_future().share()](const Notification&) {
    if (!held.exchange(true)) (void)go.wait_for(kHang);
  }));
  ASSERT_OK(near_.notify(1).wait(kHang));
  ASSERT_TRUE(eventually([&] { return held.load(); }));
  const std::vector<std::byte> bytes = make_bytes(kBytes, 1);
  std::vector<Completion> writes;
  for (std::uint32_t i = 0; i < kMany; ++i) {
    writes.push_back(near_.write({bytes.data(), kBytes}, *to_far));
  }
  std::vector<Completion> answered;
  answered.push_back(far_.write({bytes.data(), kBytes}, *to_near));
  answered.push_back(far_.flush());
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the flush is there, most times
  goes.set_value();
  for (Completion& each : answered) EXPECT_OK(each.wait(kHang));
  for (Completion& each : writes) ASSERT_OK(each.wait(kHang));
  EXPECT_OK(near_.flush().wait(kHang));
  EXPECT_TRUE(holds(near_landing->data(), kBytes, 1));
  EXPECT_TRUE(holds(far_landing->data(), kBytes, 1));
}

#if defined(FARWRITE_LIBRARY)
TEST_P(Backlogged, TakesWhatThePeerIsTold) {
  const bool bounded = near_.peer().fabric != fabric::kSimulated;
  const std::uint32_t most = bounded ? 10 * kMany : 1000;
  std::uint32_t sent = 0;
  Status refused;
  while (sent < most) {
    const Completion posted = near_.notify(1);
    if (posted.done()) refused = posted.wait();
    if (!refused.ok()) break;
    ++sent;
  }
  if (bounded) {
    EXPECT_CODE(kResourceExhausted, refused);
  }
  constexpr std::string_view kTold = "told";
  ASSERT_OK(near_.tell({kTold.data(), kTold.size()}, 7));
  for (std::uint32_t i = 0; i < sent; ++i) ASSERT_OK(far_.wait_notification(kHang));
  auto told = far_.wait_notification(kHang);
  ASSERT_OK(told);
  EXPECT_EQ(told->tag, 7U);
  ASSERT_EQ(told->message.size(), kTold.size());
  EXPECT_EQ(std::memcmp(told->message.data(), kTold.data(), kTold.size()), 0);
}
#endif

#if defined(FARWRITE_LIBRARY)
FARWRITE_EVERY_FABRIC_INSIDE(Backlogged);
#else
FARWRITE_EVERY_FABRIC(Backlogged);
#endif

}  // namespace

namespace stream {
namespace {

class StreamingOnABackloggedLane : public Streaming {
 protected:
  static constexpr std::uint32_t kStreams = 24;
  static constexpr std::uint32_t kWrites = 4000;  // of each

  // The thread that serves the streams' lane at the far end is in a callback until go().
  void hold() {
    far_end_.read([this, go = goes_.get_future().share()](const Result<std::vector<Slice>>&) {
      held_ = true;
      (void)go.wait_for(kHang);
    });
    ASSERT_OK(outcome(write(near_end_, {heap_slice(make_bytes(1, 1))})));
    ASSERT_TRUE(eventually([this] { return held_.load(); }));
  }
  void go() { goes_.set_value(); }
  // Streams of that lane.
  void open_more() {
    for (std::uint32_t i = 1; i <= kStreams; ++i) {
      senders_.push_back(must_open(near_streams_, number_ + std::uint64_t{i} * lanes()));
      readers_.push_back(must_open(far_streams_, number_ + std::uint64_t{i} * lanes()));
    }
  }
  void write_single_bytes(Stream& stream) {
    for (std::uint32_t i = 0; i < kWrites; ++i) {
      stream.write({heap_slice(make_bytes(1, i))}, [](const Status& status) {
        if (status.code() != StatusCode::kCancelled) {
          EXPECT_OK(status);
        }
      });
    }
  }

  std::vector<Stream> senders_, readers_;
  std::promise<void> goes_;
  std::atomic<bool> held_{false};
};

TEST_P(StreamingOnABackloggedLane, BytesAndEndsArrive) {
  open_more();
  hold();
  std::vector<std::future<Status>> finished;
  for (Stream& stream : senders_) {
    write_single_bytes(stream);
    finished.push_back(finish(stream));
  }
  go();
  for (Stream& stream : readers_) {
    std::vector<std::byte> all;
    EXPECT_OK(read_to(stream, SIZE_MAX, all));
    EXPECT_EQ(all.size(), kWrites);
  }
  for (auto& one : finished) EXPECT_OK(outcome(std::move(one)));
}

TEST_P(StreamingOnABackloggedLane, AnAbortArrives) {
  open_more();
  hold();
  for (Stream& stream : senders_) write_single_bytes(stream);
  senders_.front().abort(Status(StatusCode::kCancelled, "enough"));
  go();
  std::vector<std::byte> all;
  EXPECT_CODE(kUnavailable, read_to(readers_.front(), SIZE_MAX, all));
}

// Each lend needs a message, and the window has room for the bytes of all of them.
TEST_P(StreamingOnABackloggedLane, ManyShortLendsArrive) {
  constexpr std::uint64_t kSlice = 64, kStride = 2 * kSlice, kSlices = 70'000;
  Options options;
  options.lend_from = kSlice;
  create(options);
  hold();
  const std::vector<std::byte> bytes = make_bytes(kSlices * kStride, 3);
  const Slice whole = device_slice(bytes);
  std::vector<Slice> slices;
  std::vector<std::byte> expected(1);
  expected[0] = make_bytes(1, 1)[0];
  for (std::uint64_t at = 0; at < bytes.size(); at += kStride) {
    slices.push_back({.bytes = {whole.bytes.data + at, kSlice}, .owner = whole.owner});
    expected.insert(expected.end(), bytes.begin() + static_cast<std::ptrdiff_t>(at),
                    bytes.begin() + static_cast<std::ptrdiff_t>(at + kSlice));
  }
  auto written = write(near_end_, std::move(slices));
  auto finished = finish(near_end_);
  go();
  std::vector<std::byte> all(expected.begin(), expected.begin() + 1);  // which hold() took
  EXPECT_OK(read_to(far_end_, SIZE_MAX, all));
  EXPECT_TRUE(all == expected);
  EXPECT_OK(outcome(std::move(written)));
  EXPECT_OK(outcome(std::move(finished)));
}

FARWRITE_EVERY_FABRIC(StreamingOnABackloggedLane);

}  // namespace
}  // namespace stream
}  // namespace farwrite
