// Byte streams and a peer that does not keep to their rules.
#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "conformance/conformance.h"

namespace farwrite::stream {
namespace {

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
  static std::vector<std::byte> frame(std::uint8_t kind, std::uint64_t number, std::uint64_t value,
                                      const std::vector<std::byte>& payload) {
    std::vector<std::byte> message(17, std::byte{0});
    message[0] = static_cast<std::byte>(kind);
    for (int i = 0; i < 8; ++i) {
      message[1 + i] = static_cast<std::byte>(number >> (8 * i));
      message[9 + i] = static_cast<std::byte>(value >> (8 * i));
    }
    message.insert(message.end(), payload.begin(), payload.end());
    return message;
  }
  void send(std::uint8_t kind, std::uint64_t number, std::uint64_t value,
            const std::vector<std::byte>& payload = {}) {
    const std::vector<std::byte> message = frame(kind, number, value, payload);
    EXPECT_OK(near_.send({message.data(), message.size()}).wait(kHang));
  }
  void begin(std::uint64_t number, std::uint64_t window = Options().window,
             std::uint64_t message_window = Options().message_window) {
    std::vector<std::byte> payload(8);
    for (int i = 0; i < 8; ++i) payload[i] = static_cast<std::byte>(message_window >> (8 * i));
    send(2, number, window, payload);
  }
  // A pair of a data frame's payload, with so many inline bytes behind it.
  static std::vector<std::byte> pair(std::uint32_t inline_bytes, std::uint32_t lent,
                                     std::size_t bytes) {
    std::vector<std::byte> pair(8 + bytes, std::byte{1});
    for (int i = 0; i < 4; ++i) {
      pair[i] = static_cast<std::byte>(inline_bytes >> (8 * i));
      pair[4 + i] = static_cast<std::byte>(lent >> (8 * i));
    }
    return pair;
  }
  Status outcome() { return outcome(stream_); }
  static Status outcome(Stream& stream) {
    while (true) {
      auto come = std::make_shared<std::promise<Status>>();
      stream.read(
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
  EXPECT_CODE(kProtocolError, streams_.open(2).status());
  // The stranger is told once.
  EXPECT_OK(near_.send({"garbage", 7}).wait(kHang));
  auto told = near_.wait_notification(kHang);
  ASSERT_OK(told);
  ASSERT_FALSE(told->message.empty());
  EXPECT_EQ(told->message[0], std::byte{9});
  EXPECT_CODE(kDeadlineExceeded, near_.wait_notification(std::chrono::milliseconds(50)).status());
  EXPECT_EQ(far_.peer_state(), PeerState::kAlive);
}

TEST_P(StreamingWithAStranger, OtherWindowsEndTheStreamAtBothSides) {
  struct Case {
    std::uint64_t window, message_window;
    const char* named;
  };
  const Options ours;
  std::uint64_t number = 100;
  for (const Case& wrong : {Case{ours.window + 1, ours.message_window, "window is 33554433"},
                            Case{ours.window, 1, "message_window is 1 "}, Case{0, 0, "window"}}) {
    auto stream = streams_.open(++number);
    ASSERT_OK(stream);
    begin(number, wrong.window, wrong.message_window);
    const Status ended = outcome(*stream);
    EXPECT_CODE(kFailedPrecondition, ended);
    auto told = near_.wait_notification(kHang);
    ASSERT_OK(told);
    const std::string message(reinterpret_cast<const char*>(told->message.data()),
                              told->message.size());
    EXPECT_EQ(message.substr(0, 1), "\6");
    EXPECT_NE(message.find(wrong.named), std::string::npos) << message.substr(17);
  }
}

TEST_P(StreamingWithAStranger, ADirectionBeginsOnce) {
  send(1, 1, 0, pair(3, 0, 3));
  EXPECT_CODE(kProtocolError, outcome());
  auto second = streams_.open(2);
  ASSERT_OK(second);
  send(4, 2, 0);
  EXPECT_CODE(kProtocolError, outcome(*second));
  auto third = streams_.open(3);
  ASSERT_OK(third);
  begin(3);
  begin(3);
  EXPECT_CODE(kProtocolError, outcome(*third));
}

TEST_P(StreamingWithAStranger, MoreThanTheWindowEndsTheStream) {
  begin(1);
  const auto most = static_cast<std::uint32_t>(near_.max_message_bytes() - 17 - 8);
  for (std::uint64_t sent = 0; sent <= Options().message_window; sent += most) {
    send(1, 1, 0, pair(most, 0, most));
  }
  auto told = near_.wait_notification(kHang);
  ASSERT_OK(told);
  ASSERT_FALSE(told->message.empty());
  EXPECT_EQ(told->message[0], std::byte{6});
  EXPECT_CODE(kProtocolError, outcome());
  EXPECT_OK(streams_.open(2));
}

TEST_P(StreamingWithAStranger, FalseConfirmationsEndTheStream) {
  send(3, 1, 1);
  EXPECT_CODE(kProtocolError, outcome());
}

TEST_P(StreamingWithAStranger, AnEndOfWhatWasNotSentEndsTheStream) {
  send(5, 1, 0);
  EXPECT_CODE(kProtocolError, outcome());
}

// Each ends its own stream, and the stranger is told.
TEST_P(StreamingWithAStranger, APatternThatIsWrongEndsTheStream) {
  constexpr std::uint32_t kLent = 4096;
  struct Case {
    const char* what;
    std::vector<std::byte> payload;
    bool lends = false;
  };
  const auto joined = [](std::vector<std::byte> one, const std::vector<std::byte>& other) {
    one.insert(one.end(), other.begin(), other.end());
    return one;
  };
  const std::vector<Case> cases = {
      {"nothing", {}},
      {"half a pair", std::vector<std::byte>(5, std::byte{1})},
      {"an empty pair", pair(0, 0, 0)},
      {"an empty pair behind another", joined(pair(3, 0, 3), pair(0, 0, 0))},
      {"fewer bytes than a pair says", pair(4, 0, 3)},
      {"far fewer bytes than a pair says", pair(UINT32_MAX, 0, 3)},
      {"lent bytes without a region", pair(0, kLent, 0)},
      {"a region without lent bytes", pair(3, 0, 3), true},
      {"nothing but a region", {}, true},
      {"more lent bytes than the region has", pair(0, kLent + 1, 0), true},
      {"fewer lent bytes than the region has", pair(0, kLent - 1, 0), true},
      {"lent bytes that overflow 32 bits to the region's size",
       joined(joined(pair(0, UINT32_MAX, 0), pair(0, 1, 0)), pair(0, kLent, 0)), true},
  };
  auto region = near_device_.allocate(kLent);
  ASSERT_OK(region);
  std::uint64_t number = 100;
  for (const Case& wrong : cases) {
    SCOPED_TRACE(wrong.what);
    auto stream = streams_.open(++number);
    ASSERT_OK(stream);
    begin(number);
    const std::vector<std::byte> message = frame(1, number, 0, wrong.payload);
    const ByteView view = {message.data(), message.size()};
    const ByteView lent = {region->data(), kLent};
    EXPECT_OK((wrong.lends ? near_.lend(view, lent, [] {}) : near_.send(view)).wait(kHang));
    EXPECT_CODE(kProtocolError, outcome(*stream));
    auto told = near_.wait_notification(kHang);
    ASSERT_OK(told);
    ASSERT_FALSE(told->message.empty());
    EXPECT_EQ(told->message[0], std::byte{6});
  }
  EXPECT_OK(streams_.open(2));
}

TEST_P(StreamingWithAStranger, WhatComesBehindAnErrorIsDropped) {
  const std::uint64_t same_lane = 1 + lanes();
  auto other = streams_.open(same_lane);
  ASSERT_OK(other);
  begin(1);
  send(1, 1, 0, pair(0, 0, 0));
  EXPECT_CODE(kProtocolError, outcome());
  send(1, 1, 0, pair(3, 0, 3));
  auto region = near_device_.allocate(4096);
  ASSERT_OK(region);
  const std::vector<std::byte> message = frame(1, 1, 0, pair(0, 4096, 0));
  std::atomic<int> returned{0};
  ASSERT_OK(
      near_.lend({message.data(), message.size()}, {region->data(), 4096}, [&] { ++returned; })
          .wait(kHang));
  EXPECT_TRUE(eventually([&] { return returned == 1; }));
  // What comes on another stream shows that all of it has come.
  send(1, same_lane, 0);
  EXPECT_CODE(kProtocolError, outcome(*other));
  EXPECT_CODE(kProtocolError, outcome());
}

FARWRITE_EVERY_FABRIC(StreamingWithAStranger);

}  // namespace
}  // namespace farwrite::stream
