// A sender that finds neither a slot nor memory waits for the receiver.
#include <mutex>

#include "conformance/tensor_fixture.h"
#include "core/log.h"

namespace farwrite {
namespace {

constexpr std::chrono::nanoseconds kAtOnce(0);
constexpr std::chrono::nanoseconds kBriefly = std::chrono::milliseconds(30);

class TensorWaits : public Tensors {
 protected:
  static Status send_within(TensorSender& sender, const TensorSpec& spec, std::uint32_t seed,
                            std::chrono::nanoseconds timeout) {
    const std::vector<std::byte> source = make_bytes(*spec.bytes(), seed);
    return wait_until_settled(sender.send(spec, {source.data(), source.size()}, timeout));
  }
  // Sends until nothing more fits. Returns how many did.
  static std::uint32_t fill(TensorSender& sender, const TensorSpec& spec) {
    std::uint32_t sent = 0;
    while (sent < 100 && send_within(sender, spec, sent + 1, kAtOnce).ok()) ++sent;
    return sent;
  }
};

TEST_P(TensorWaits, ForMemoryThatTheReceiverGivesBack) {
  const TensorSpec spec = bytes_spec({20 << 20});
  for (const bool has_slots : {false, true}) {
    SCOPED_TRACE(has_slots);
    Edge edge = open_edge(has_slots ? "static" : "dynamic",
                          has_slots ? static_edge(spec, 1) : ReceiverOptions());
    ASSERT_TRUE(edge.sender.valid());
    const std::uint32_t before = fill(edge.sender, spec);
    ASSERT_GE(before, 3U) << "of 64 MiB";
    EXPECT_CODE(kResourceExhausted, send_within(edge.sender, spec, 9, kAtOnce));
    const Status late = send_within(edge.sender, spec, 9, kBriefly);
    EXPECT_CODE(kDeadlineExceeded, late);
    EXPECT_NE(late.message().find(has_slots ? "\"static\"" : "\"dynamic\""), std::string::npos)
        << late.message();
    const std::uint32_t all = before + 4;
    auto sending = std::async(std::launch::async, [&] {
      for (std::uint32_t step = before + 1; step <= all; ++step) {
        ASSERT_OK(send_within(edge.sender, spec, step, kHang));
      }
      EXPECT_OK(edge.sender.close(kHang));
    });
    for (std::uint32_t step = 1; step <= all; ++step) {
      EXPECT_EQ(take(edge.receiver, spec, step).sequence(), step) << "what was refused took none";
    }
    EXPECT_CODE(kEndOfStream, edge.receiver.receive(kHang).status());
    sending.get();
    EXPECT_TRUE(eventually([&] { return near_device_.stats().leases_held_by_peers == 0; }));
  }
}

TEST_P(TensorWaits, EndWithTheReceiverAndTheSender) {
  const TensorSpec spec = bytes_spec({20 << 20});
  for (const bool by_receiver : {false, true}) {
    SCOPED_TRACE(by_receiver);
    Edge edge = open_edge(by_receiver ? "receiver" : "sender", ReceiverOptions());
    ASSERT_TRUE(edge.sender.valid());
    ASSERT_GE(fill(edge.sender, spec), 3U);
    auto sending =
        std::async(std::launch::async, [&] { return send_within(edge.sender, spec, 9, kForever); });
    EXPECT_EQ(sending.wait_for(kBriefly), std::future_status::timeout);
    if (by_receiver) {
      ASSERT_OK(edge.receiver.close(kHang));
      EXPECT_CODE(kUnavailable, sending.get());
    } else {
      EXPECT_CODE(kDeadlineExceeded, edge.sender.close(kBriefly));
      EXPECT_CODE(kFailedPrecondition, sending.get());
      ASSERT_OK(edge.receiver.close(kHang));
    }
    // What was on its way goes back when something takes it.
    auto other = TensorReceiver::open(far_, "other", ReceiverOptions());
    ASSERT_OK(other);
    EXPECT_TRUE(eventually([&] {
      EXPECT_OK(other->try_receive());
      return near_device_.stats().leases_held_by_peers == 0;
    }));
  }
}

TEST_P(TensorWaits, NotForWhatNobodyCanGiveBack) {
  Edge edge = open_edge("too large", ReceiverOptions());
  ASSERT_TRUE(edge.sender.valid());
  EXPECT_CODE(kResourceExhausted, send_within(edge.sender, bytes_spec({80 << 20}), 1, kForever));
}

FARWRITE_EVERY_FABRIC_INSIDE(TensorWaits);

// The lines are the process's.
class LongWaits : public Tensors {};

TEST_P(LongWaits, AreLogged) {
  struct Lines {
    std::mutex mutex;
    std::string text;
  };
  core::set_log_level(core::LogLevel::kWarning);
  static Lines* const lines = new Lines;  // a sink is never destroyed
  core::set_log_sink([](core::LogLevel, std::string_view line) {
    const std::lock_guard lock(lines->mutex);
    lines->text += line;
  });
  lines->text.clear();  // of the fabric before
  const auto logged = [&](const std::string& text) {
    return eventually([&] {
      const std::lock_guard lock(lines->mutex);
      return lines->text.find(text) != std::string::npos;
    });
  };
  Edge edge = open_edge("held", ReceiverOptions());
  ASSERT_TRUE(edge.sender.valid());
  auto memory = near_device_.allocate(1000);
  ASSERT_OK(memory);
  const TensorSpec spec = bytes_spec({1000});
  const Completion sent = edge.sender.send(spec, {memory->data(), 1000});
  auto waiting = std::async(std::launch::async, [&] { return sent.wait(kHang); });
  EXPECT_TRUE(logged("\"held\" drops a tensor of registered memory"));
  ASSERT_OK(edge.receiver.receive(kHang));
  EXPECT_OK(waiting.get());
  Edge full = open_edge("full", ReceiverOptions());
  ASSERT_TRUE(full.sender.valid());
  const TensorSpec large = bytes_spec({20 << 20});
  const std::vector<std::byte> source(20 << 20);
  while (full.sender.send(large, {source.data(), source.size()}, kAtOnce).wait().ok()) {
  }
  auto sending = std::async(std::launch::async, [&] {
    return full.sender.send(large, {source.data(), source.size()}, kHang).wait(kHang);
  });
  EXPECT_TRUE(logged("\"full\" has given back no slot, memory or room for a second"));
  ASSERT_OK(full.receiver.receive(kHang));
  EXPECT_OK(sending.get());
  core::set_log_sink(nullptr);
  core::set_log_level(core::LogLevel::kError);
}

FARWRITE_EVERY_FABRIC_INSIDE(LongWaits);

}  // namespace
}  // namespace farwrite
