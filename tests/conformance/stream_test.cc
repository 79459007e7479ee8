// Byte streams over a channel, on every fabric: order, no copy where none is needed, bounds on what
// is on its way, and every way to end.
#include <poll.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "conformance/stream_fixture.h"

namespace farwrite::stream {
namespace {

TEST_P(Streaming, ShortSlicesOfOneWriteTravelInOneMessage) {
  const std::vector<std::byte> bytes = make_bytes(500, 1);
  std::vector<Slice> slices;
  for (std::size_t at = 0; at < bytes.size(); at += 10) {
    slices.push_back(heap_slice({bytes.begin() + static_cast<std::ptrdiff_t>(at),
                                 bytes.begin() + static_cast<std::ptrdiff_t>(at + 10)}));
  }
  ASSERT_OK(outcome(write(near_end_, std::move(slices))));
  std::vector<std::byte> all;
  ASSERT_OK(read_to(far_end_, bytes.size(), all));
  EXPECT_EQ(all, bytes);
  EXPECT_EQ(near_streams_.stats().messages, 1U);
  EXPECT_EQ(near_streams_.stats().lent, 0U);
}

TEST_P(Streaming, LongSlicesInTheDevicesMemoryAreNotCopiedBeforeTheyLeave) {
  const std::vector<std::byte> bytes = make_bytes(1'000'000, 2);
  ASSERT_OK(outcome(write(near_end_, {device_slice(bytes)})));
  std::vector<std::byte> all;
  std::vector<Slice> kept;
  ASSERT_OK(read_to(far_end_, bytes.size(), all, &kept));
  EXPECT_EQ(all, bytes);
  EXPECT_EQ(near_streams_.stats().staged_bytes, 0U);
  EXPECT_EQ(near_streams_.stats().lent_bytes, bytes.size());
  EXPECT_EQ(maps() ? far_streams_.stats().aliased_bytes : far_streams_.stats().read_bytes,
            bytes.size());
  if (maps()) {
    EXPECT_EQ(freed_, 0) << "the receiver's slices show this memory";
  }
  kept.clear();
  EXPECT_TRUE(eventually([&] { return freed_ == 1; }));
}

TEST_P(Streaming, LongSlicesOfOtherMemoryAreCopiedOnce) {
  const std::vector<std::byte> bytes = make_bytes(500'000, 3);
  ASSERT_OK(outcome(write(near_end_, {heap_slice(bytes)})));
  std::vector<std::byte> all;
  ASSERT_OK(read_to(far_end_, bytes.size(), all));
  EXPECT_EQ(all, bytes);
  EXPECT_EQ(near_streams_.stats().staged_bytes, bytes.size());
}

TEST_P(Streaming, SlicesOfAnySizeArriveInOrderBothWaysAtOnce) {
  create(small_sizes());
  using Make = std::function<Slice(const std::vector<std::byte>&)>;
  const auto send = [](Stream& stream, const Make& in_device, std::uint32_t seed) {
    std::mt19937 random(seed);
    std::vector<std::byte> all;
    std::vector<std::future<Status>> done;
    for (int i = 0; i < 150; ++i) {
      std::vector<Slice> slices;
      for (std::uint32_t count = random() % 4; count > 0; --count) {
        const std::size_t size = random() % 3 == 0 ? random() % 60'000 : random() % 300;
        const std::vector<std::byte> bytes = make_bytes(size, random());
        all.insert(all.end(), bytes.begin(), bytes.end());
        const bool lent = in_device != nullptr && size > 0 && random() % 2 == 0;
        slices.push_back(lent ? in_device(bytes) : heap_slice(bytes));
      }
      done.push_back(write(stream, std::move(slices)));
    }
    for (auto& one : done) EXPECT_OK(outcome(std::move(one)));
    EXPECT_OK(outcome(finish(stream)));
    return all;
  };
  auto there = std::async(std::launch::async, send, std::ref(near_end_),
                          Make([this](const auto& bytes) { return device_slice(bytes); }), 1U);
  auto back = std::async(std::launch::async, send, std::ref(far_end_), Make(), 2U);
  const auto receive = [](Stream& stream) {
    std::vector<std::byte> all;
    EXPECT_OK(read_to(stream, SIZE_MAX, all));
    return all;
  };
  auto at_near = std::async(std::launch::async, receive, std::ref(near_end_));
  auto at_far = std::async(std::launch::async, receive, std::ref(far_end_));
  EXPECT_TRUE(there.get() == at_far.get());
  EXPECT_TRUE(back.get() == at_near.get());
}

TEST_P(Streaming, AMessageLongerThanEveryWindowPassesWhileTheProgramKeepsAllSlices) {
  create(small_sizes());
  const std::vector<std::byte> bytes = make_bytes(4 * kMiB, 5);
  auto written = write(near_end_, {device_slice(bytes)});
  std::vector<std::byte> all;
  std::vector<Slice> kept;
  ASSERT_OK(read_to(far_end_, bytes.size(), all, &kept));
  EXPECT_OK(outcome(std::move(written)));
  EXPECT_TRUE(all == bytes);
  EXPECT_GT(far_streams_.stats().held_back_bytes, 0U);
  EXPECT_LE(far_streams_.stats().aliased_bytes, small_sizes().held);
}

TEST_P(Streaming, ASenderWaitsForAProgramThatDoesNotRead) {
  create(small_sizes());
  std::vector<std::future<Status>> done;
  std::vector<std::byte> sent;
  for (std::uint32_t i = 0; i < 40; ++i) {
    // First the window of messages, then that of lent bytes.
    const std::vector<std::byte> bytes = make_bytes(i < 20 ? 2000 : 50'000, i);
    for (int times = i < 20 ? 10 : 1; times > 0; --times) {
      sent.insert(sent.end(), bytes.begin(), bytes.end());
      done.push_back(write(near_end_, {heap_slice(bytes)}));
    }
  }
  EXPECT_FALSE(ready(done.back(), std::chrono::milliseconds(100)));
  EXPECT_GT(near_streams_.stats().waits, 0U);
  EXPECT_LE(near_streams_.stats().lent_bytes, 4 * small_sizes().window);
  std::vector<std::byte> all;
  ASSERT_OK(read_to(far_end_, sent.size(), all));
  EXPECT_TRUE(all == sent);
  for (auto& one : done) EXPECT_OK(outcome(std::move(one)));
  EXPECT_GT(far_streams_.stats().credits, 0U);
}

TEST_P(Streaming, FinishIsDoneWhenTheProgramHasEverything) {
  const std::vector<std::byte> bytes = make_bytes(300'000, 7);
  ASSERT_OK(outcome(write(near_end_, {heap_slice(bytes)})));
  auto finished = finish(near_end_);
  EXPECT_FALSE(ready(finished, std::chrono::milliseconds(50)));
  std::vector<std::byte> all;
  ASSERT_OK(read_to(far_end_, SIZE_MAX, all));
  EXPECT_TRUE(all == bytes);
  EXPECT_OK(outcome(std::move(finished)));
  // The end stays the end, and the other direction still works.
  auto again = read(far_end_);
  ASSERT_OK(again);
  EXPECT_TRUE(again->empty());
  ASSERT_OK(outcome(write(far_end_, {heap_slice(bytes)})));
  all.clear();
  EXPECT_OK(read_to(near_end_, bytes.size(), all));
  EXPECT_CODE(kFailedPrecondition, outcome(write(near_end_, {heap_slice(bytes)})));
  EXPECT_CODE(kFailedPrecondition, outcome(finish(near_end_)));
}

TEST_P(Streaming, AnAbortEndsBothSidesAndNoOtherStream) {
  Stream other_near = must_open(near_streams_, 2);
  Stream other_far = must_open(far_streams_, 2);
  auto written = finish(far_end_);
  near_end_.abort(Status(StatusCode::kCancelled, "the test has seen enough"));
  auto slices = read(far_end_);
  // The end of the other direction was sent before.
  EXPECT_CODE(kUnavailable, slices.status());
  EXPECT_NE(slices.status().message().find("the test has seen enough"), std::string::npos);
  EXPECT_CODE(kUnavailable, outcome(write(far_end_, {heap_slice(make_bytes(10, 1))})));
  EXPECT_CODE(kCancelled, read(near_end_).status());
  const std::vector<std::byte> bytes = make_bytes(100, 8);
  ASSERT_OK(outcome(write(other_near, {heap_slice(bytes)})));
  std::vector<std::byte> all;
  EXPECT_OK(read_to(other_far, bytes.size(), all));
  EXPECT_EQ(all, bytes);
  static_cast<void>(outcome(std::move(written)));
}

TEST_P(Streaming, AMalformedMessageEndsAllStreamsOnBothSides) {
  Stream other_near = must_open(near_streams_, 2);
  Stream other_far = must_open(far_streams_, 2);
  ASSERT_OK(near_.send({"garbage", 7}).wait(kHang));
  for (Stream* stream : {&far_end_, &other_far}) {
    EXPECT_CODE(kProtocolError, read(*stream).status());
    EXPECT_CODE(kProtocolError, outcome(write(*stream, {heap_slice(make_bytes(10, 1))})));
  }
  for (Stream* stream : {&near_end_, &other_near}) {
    const Status told = read(*stream).status();
    EXPECT_CODE(kUnavailable, told);
    EXPECT_NE(told.message().find("read a stream message"), std::string::npos) << told.to_string();
    EXPECT_CODE(kUnavailable, outcome(write(*stream, {heap_slice(make_bytes(10, 1))})));
  }
  EXPECT_CODE(kProtocolError, far_streams_.open(9).status());
  EXPECT_CODE(kUnavailable, near_streams_.open(9).status());
}

TEST_P(Streaming, ADroppedStreamEndsAtThePeer) {
  near_end_ = Stream();
  EXPECT_CODE(kUnavailable, read(far_end_).status());
}

TEST_P(Streaming, BytesForAStreamThatIsNotOpenEndIt) {
  Stream stranger = must_open(near_streams_, 77);
  // The answer may come before the write is over.
  static_cast<void>(outcome(write(stranger, {heap_slice(make_bytes(10, 1))})));
  EXPECT_CODE(kUnavailable, read(stranger).status());
}

TEST_P(Streaming, WhatHasComeIsReadBeforeTheEndOfTheChannel) {
  const std::vector<std::byte> bytes = make_bytes(1000, 9);
  ASSERT_OK(outcome(write(near_end_, {heap_slice(bytes)})));
  Stream probe_near = must_open(near_streams_, 3);
  Stream probe_far = must_open(far_streams_, 3);
  if (lanes() == 1) {
    // On one lane, what comes later shows that the first has come.
    ASSERT_OK(outcome(write(probe_near, {heap_slice(bytes)})));
    ASSERT_OK(read(probe_far));
    ASSERT_OK(near_.close(kHang));
    std::vector<std::byte> all;
    EXPECT_OK(read_to(far_end_, bytes.size(), all));
    EXPECT_EQ(all, bytes);
  } else {
    ASSERT_OK(near_.close(kHang));
  }
  while (true) {
    auto slices = read(far_end_);
    if (slices.ok()) continue;
    EXPECT_CODE(kUnavailable, slices.status());
    break;
  }
  EXPECT_FALSE(outcome(write(far_end_, {heap_slice(bytes)})).ok());
  EXPECT_FALSE(near_streams_.open(9).ok() && far_streams_.open(9).ok());
}

TEST_P(Streaming, OneReadAtATimeAndOneStreamOfANumber) {
  std::promise<void> first;
  far_end_.read([&](const Result<std::vector<Slice>>&) { first.set_value(); });
  EXPECT_CODE(kFailedPrecondition, read(far_end_).status());
  ASSERT_OK(outcome(write(near_end_, {heap_slice(make_bytes(1, 1))})));
  EXPECT_EQ(first.get_future().wait_for(kHang), std::future_status::ready);
  EXPECT_CODE(kAlreadyExists, near_streams_.open(number_).status());
}

TEST_P(Streaming, OptionsThatCannotWorkAreRefused) {
  Options options;
  options.chunk = 0;
  EXPECT_CODE(kInvalidArgument, Streams::create(near_device_, near_, options).status());
  options = Options();
  options.held = options.window / 2 + 1;
  EXPECT_CODE(kInvalidArgument, Streams::create(near_device_, near_, options).status());
  options = Options();
  options.message_window = near_.max_message_bytes() - 1;
  EXPECT_CODE(kInvalidArgument, Streams::create(near_device_, near_, options).status());
}

TEST_P(Streaming, AProgramMayDeliverInItsOwnLoop) {
  Options options = small_sizes();
  options.polled = true;
  create(options);
  std::atomic<bool> stop{false};
  const auto loop = [&](Streams streams) {
    while (!stop.load()) {
      if (streams.poll()) continue;
      if (!streams.arm()) continue;
      pollfd entry{streams.descriptor().value(), POLLIN, 0};
      // Short, so that `stop` is seen; one longer than that would fail read_to().
      ::poll(&entry, 1, 200);
    }
  };
  std::thread near_loop(loop, near_streams_);
  std::thread far_loop(loop, far_streams_);
  const std::vector<std::byte> bytes = make_bytes(3 * kMiB, 5);
  for (int round = 0; round < 5; ++round) {
    auto there = write(near_end_, {heap_slice(make_bytes(9, 1)), device_slice(bytes)});
    std::vector<std::byte> all;
    EXPECT_OK(read_to(far_end_, bytes.size() + 9, all));
    EXPECT_EQ(std::vector<std::byte>(all.begin() + 9, all.end()), bytes);
    EXPECT_OK(outcome(std::move(there)));
    auto back = write(far_end_, {heap_slice(bytes)});
    all.clear();
    EXPECT_OK(read_to(near_end_, bytes.size(), all));
    EXPECT_EQ(all, bytes);
    EXPECT_OK(outcome(std::move(back)));
  }
  stop.store(true);
  near_loop.join();
  far_loop.join();
}

TEST_P(Streaming, WindowsThatDifferEndTheStreamOnBothSides) {
  for (const bool of_messages : {false, true}) {
    Options near = small_sizes(), far = near;
    (of_messages ? far.message_window : far.window) *= 2;
    const std::string named = of_messages ? "message_window" : "window";
    create(near, far);
    static_cast<void>(write(near_end_, {heap_slice(make_bytes(100, 1))}));
    const Status at_far = read(far_end_).status();
    EXPECT_CODE(kFailedPrecondition, at_far);
    EXPECT_NE(at_far.message().find("the sender's " + named), std::string::npos)
        << at_far.to_string();
    const Status at_near = read(near_end_).status();
    EXPECT_CODE(kUnavailable, at_near);
    EXPECT_NE(at_near.message().find("the sender's " + named), std::string::npos)
        << at_near.to_string();
  }
}

TEST_P(Streaming, TuningChoosesSizesThatWork) {
  ASSERT_OK(near_streams_.tune());
  const Options tuned = near_streams_.options();
  EXPECT_GE(tuned.lend_from, 1024U);
  EXPECT_LE(tuned.lend_from, near_.max_message_bytes());
  EXPECT_GE(tuned.chunk, 65536U);
  Stream near = must_open(near_streams_, 5);
  Stream far = must_open(far_streams_, 5);
  const std::vector<std::byte> bytes = make_bytes(700'000, 10);
  auto written = write(near, {heap_slice(bytes)});
  std::vector<std::byte> all;
  ASSERT_OK(read_to(far, bytes.size(), all));
  EXPECT_TRUE(all == bytes);
  EXPECT_OK(outcome(std::move(written)));
}

TEST_P(Streaming, AChannelHasStreamsOnceAtATimeAndNoTensorsBesideThem) {
  EXPECT_CODE(kAlreadyExists, Streams::create(near_device_, near_, {}).status());
  EXPECT_CODE(kFailedPrecondition, TensorReceiver::open(near_, "edge", ReceiverOptions()).status());
  EXPECT_CODE(kFailedPrecondition, TensorSender::open(near_device_, near_, "edge", kHang).status());
  const std::vector<std::byte> bytes = make_bytes(100, 1);
  auto written = write(near_end_, {heap_slice(bytes)});
  std::vector<std::byte> all;
  ASSERT_OK(read_to(far_end_, bytes.size(), all));
  EXPECT_TRUE(all == bytes) << "what was refused has changed something";
  EXPECT_OK(outcome(std::move(written)));
  near_end_ = Stream();
  near_streams_ = Streams();
  EXPECT_OK(Streams::create(near_device_, near_, {}));
}

TEST_P(Streaming, ManyStreamsShareAChannel) {
  constexpr std::uint32_t kStreams = 40;
  std::vector<Stream> near, far;
  for (std::uint32_t i = 0; i < kStreams; ++i) {
    near.push_back(must_open(near_streams_, 100 + i));
    far.push_back(must_open(far_streams_, 100 + i));
  }
  for (std::uint32_t i = 0; i < kStreams; ++i) {
    ASSERT_OK(outcome(write(near[i], {heap_slice(make_bytes(100 + 1000 * i, i))})));
  }
  for (std::uint32_t i = kStreams; i-- > 0;) {
    std::vector<std::byte> all;
    ASSERT_OK(read_to(far[i], 100 + 1000 * i, all));
    EXPECT_TRUE(all == make_bytes(100 + 1000 * i, i));
  }
}

TEST_P(Streaming, AllMemoryIsGivenBack) {
  create(small_sizes());
  for (std::uint32_t i = 0; i < 20; ++i) {
    const std::vector<std::byte> bytes = make_bytes(150'000, i);
    auto written = write(near_end_, {heap_slice(bytes), device_slice(bytes)});
    std::vector<std::byte> all;
    ASSERT_OK(read_to(far_end_, 2 * bytes.size(), all));
    EXPECT_OK(outcome(std::move(written)));
  }
  EXPECT_TRUE(eventually([&] {
    return freed_ == 20 && near_device_.stats().send.used == 0 &&
           far_device_.stats().send.used == 0 && near_device_.stats().leases_held_by_peers == 0;
  }));
}

FARWRITE_EVERY_FABRIC(Streaming);
FARWRITE_ENCRYPTED_TOO(Streaming);

}  // namespace
}  // namespace farwrite::stream
