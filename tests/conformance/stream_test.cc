// Byte streams over a channel, on every fabric: order, no copy where none is needed, bounds on what
// is on its way, and every way to end.
#include "farwrite/stream.h"

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

#include "conformance/conformance.h"

namespace farwrite::stream {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

// Memory of the heap that a slice owns.
Slice heap_slice(const std::vector<std::byte>& bytes) {
  const auto owner = std::make_shared<const std::vector<std::byte>>(bytes);
  return {.bytes = {owner->data(), owner->size()}, .owner = owner};
}

class Streaming : public ConformancePair {
 protected:
  void SetUp() override {
    ConformancePair::SetUp();
    create({});
  }
  // A stream and a slice may hold what the software adapter's memory must not outlive.
  void TearDown() override {
    near_end_ = far_end_ = Stream();
    near_streams_ = far_streams_ = Streams();
    EXPECT_OK(near_device_.close(kHang));
    EXPECT_OK(far_device_.close(kHang));
  }

  // Replaces the streams, with sizes that make short tests meet every limit.
  void create(Options options) {
    near_end_ = far_end_ = Stream();
    auto near = Streams::create(near_device_, near_, options);
    auto far = Streams::create(far_device_, far_, options);
    ASSERT_OK(near);
    ASSERT_OK(far);
    near_streams_ = *std::move(near);
    far_streams_ = *std::move(far);
    ++number_;  // the peer may still hear of the stream before
    near_end_ = must_open(near_streams_, number_);
    far_end_ = must_open(far_streams_, number_);
  }
  static Options small_sizes() {
    Options options;
    options.lend_from = 2048;
    options.chunk = 10'000;
    options.window = 100'000;
    options.write_bound = 1000;
    options.held = 50'000;
    return options;
  }
  static Stream must_open(Streams& streams, std::uint64_t number) {
    auto stream = streams.open(number);
    EXPECT_OK(stream);
    return stream.ok() ? *std::move(stream) : Stream();
  }

  // Memory of the near device; the slice's owner frees it and counts.
  Slice device_slice(const std::vector<std::byte>& bytes) {
    std::byte* const memory = near_device_.allocate_raw(bytes.size());
    EXPECT_NE(memory, nullptr);
    std::memcpy(memory, bytes.data(), bytes.size());
    return {.bytes = {memory, bytes.size()},
            .owner = std::shared_ptr<const void>(
                memory, [this, device = near_device_](const void* data) mutable {
                  device.free_raw(static_cast<std::byte*>(const_cast<void*>(data)));
                  ++freed_;
                })};
  }

  static std::future<Status> write(Stream& stream, std::vector<Slice> slices) {
    auto done = std::make_shared<std::promise<Status>>();
    stream.write(std::move(slices), [done](const Status& status) { done->set_value(status); });
    return done->get_future();
  }
  static std::future<Status> finish(Stream& stream) {
    auto done = std::make_shared<std::promise<Status>>();
    stream.finish([done](const Status& status) { done->set_value(status); });
    return done->get_future();
  }
  static Result<std::vector<Slice>> read(Stream& stream) {
    auto come = std::make_shared<std::promise<Result<std::vector<Slice>>>>();
    stream.read([come](Result<std::vector<Slice>> slices) { come->set_value(std::move(slices)); });
    auto slices = come->get_future();
    if (slices.wait_for(kHang) != std::future_status::ready) {
      return Status(StatusCode::kDeadlineExceeded, "the test's read got nothing");
    }
    return slices.get();
  }
  // Appends what comes until there are `bytes` of it, or the end. Keeps the slices if asked to.
  static Status read_to(Stream& stream, std::size_t bytes, std::vector<std::byte>& all,
                        std::vector<Slice>* kept = nullptr) {
    while (all.size() < bytes) {
      auto slices = read(stream);
      if (!slices.ok()) return slices.status();
      if (slices->empty()) break;
      for (Slice& slice : *slices) {
        all.insert(all.end(), slice.bytes.data, slice.bytes.data + slice.bytes.size);
        if (kept != nullptr) kept->push_back(std::move(slice));
      }
    }
    return Status();
  }
  static bool ready(std::future<Status>& done, std::chrono::milliseconds wait) {
    return done.wait_for(wait) == std::future_status::ready;
  }
  static Status outcome(std::future<Status> done) {
    if (!ready(done, std::chrono::milliseconds(kHang))) {
      return Status(StatusCode::kDeadlineExceeded, "the test's write did not end");
    }
    return done.get();
  }
  bool maps() const { return near_.maps_peer_memory(); }

  Streams near_streams_, far_streams_;
  Stream near_end_, far_end_;
  std::uint64_t number_ = 1000;
  std::atomic<int> freed_{0};
};

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

// A peer that speaks the channel's language and not the streams'.
class StreamingWithAStranger : public ConformancePair {
 protected:
  void SetUp() override {
    ConformancePair::SetUp();
    auto streams = Streams::create(far_device_, far_);
    ASSERT_OK(streams);
    streams_ = *std::move(streams);
    auto stream = streams_.open(1);
    ASSERT_OK(stream);
    stream_ = *std::move(stream);
  }
  void TearDown() override {
    stream_ = Stream();
    streams_ = Streams();
  }
  // A frame: kind, stream, value, payload.
  void send(std::uint8_t kind, std::uint64_t number, std::uint64_t value, std::size_t payload) {
    std::vector<std::byte> message(17 + payload, std::byte{1});
    message[0] = static_cast<std::byte>(kind);
    for (int i = 0; i < 8; ++i) {
      message[1 + i] = static_cast<std::byte>(number >> (8 * i));
      message[9 + i] = static_cast<std::byte>(value >> (8 * i));
    }
    EXPECT_OK(near_.send({message.data(), message.size()}).wait(kHang));
  }
  Status outcome() {
    while (true) {
      auto come = std::make_shared<std::promise<Status>>();
      stream_.read(
          [come](const Result<std::vector<Slice>>& slices) { come->set_value(slices.status()); });
      auto status = come->get_future();
      if (status.wait_for(kHang) != std::future_status::ready) return Status();
      if (Status ended = status.get(); !ended.ok()) return ended;
    }
  }

  Streams streams_;
  Stream stream_;
};

TEST_P(StreamingWithAStranger, GarbageEndsTheStreamsAndNothingElse) {
  EXPECT_OK(near_.send({"garbage", 7}).wait(kHang));
  EXPECT_CODE(kProtocolError, outcome());
}

TEST_P(StreamingWithAStranger, MoreThanTheWindowEndsTheStream) {
  const std::size_t most = static_cast<std::size_t>(near_.max_message_bytes() - 17);
  for (std::uint64_t sent = 0; sent <= Options().message_window; sent += most) send(1, 1, 0, most);
  auto told = near_.wait_notification(kHang);
  ASSERT_OK(told);
  ASSERT_FALSE(told->message.empty());
  EXPECT_EQ(told->message[0], std::byte{6});
  EXPECT_CODE(kProtocolError, outcome());
  EXPECT_OK(streams_.open(2));
}

TEST_P(StreamingWithAStranger, FalseConfirmationsEndTheStream) {
  send(3, 1, 1, 0);
  EXPECT_CODE(kProtocolError, outcome());
}

TEST_P(StreamingWithAStranger, AnEndOfWhatWasNotSentEndsTheStream) {
  send(5, 1, 0, 0);
  EXPECT_CODE(kProtocolError, outcome());
}

TEST_P(StreamingWithAStranger, ALendWithoutMemoryEndsTheStream) {
  send(2, 1, 0, 0);
  EXPECT_CODE(kProtocolError, outcome());
}

FARWRITE_EVERY_FABRIC(Streaming);
FARWRITE_ENCRYPTED_TOO(Streaming);
FARWRITE_EVERY_FABRIC(StreamingWithAStranger);

}  // namespace
}  // namespace farwrite::stream
