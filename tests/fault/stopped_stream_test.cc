// A stream of tensors between two processes, each of which is stopped for a while in its middle:
// nothing is lost, nothing is torn, and it goes on.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "core/deadline.h"
#include "core/tls_library.h"
#include "fault/child_process.h"
#include "fault/fixture.h"
#include "fault/named_fabric.h"
#include "fault/role.h"
#include "transfer/tensor.h"

namespace farwrite::fault {
namespace {

constexpr std::size_t kWords = 16 * 1024;  // of a tensor
constexpr std::uint64_t kTellEvery = 50;   // tensors
// Long enough to be taken for silent, and to fill whatever is between the two.
constexpr std::chrono::milliseconds kStoppedFor(800);

TensorSpec words_spec() { return {"<u8", 8, {kWords}}; }

// Sends tensors full of 1, 2, 3 ... to the endpoint until it reads a line; says how many.
int stream_source(const Arguments& arguments) {
  auto device = Device::open(options_of(arguments.at(1)));
  FARWRITE_REQUIRE_OK(device.status());
  auto channel = device->connect(Endpoint::parse(arguments.at(0)).value(), kPatience);
  FARWRITE_REQUIRE_OK(channel.status());
  auto sender = TensorSender::open(*device, *channel, "stream", kPatience);
  FARWRITE_REQUIRE_OK(sender.status());
  std::atomic<bool> enough{false};
  std::thread listener([&] {
    (void)hear();
    enough.store(true);
  });
  std::vector<std::uint64_t> words(kWords);
  std::uint64_t number = 0;
  while (!enough.load()) {
    std::fill(words.begin(), words.end(), ++number);
    const ByteView bytes(words.data(), words.size() * sizeof(std::uint64_t));
    FARWRITE_REQUIRE_OK(sender->send(words_spec(), bytes, kPatience).wait(kForever));
  }
  FARWRITE_REQUIRE_OK(sender->close());
  say("sent " + std::to_string(number));
  listener.join();
  hear_the_end();
  return 0;
}
const RoleRegistration kSource("stream source", stream_source);

// Takes them, looks at every word, and says now and then that it is in the middle, and when.
int stream_sink(const Arguments& arguments) {
  auto device = Device::open(options_of(arguments.at(0)));
  FARWRITE_REQUIRE_OK(device.status());
  say("endpoint " + device->endpoint().to_string());
  auto channel = device->accept(kPatience);
  FARWRITE_REQUIRE_OK(channel.status());
  ReceiverOptions options;
  options.kind = EdgeKind::kStatic;
  options.spec = words_spec();
  auto receiver = TensorReceiver::open(*channel, "stream", options);
  FARWRITE_REQUIRE_OK(receiver.status());
  std::uint64_t taken = 0;
  while (true) {
    auto tensor = receiver->receive(kPatience);
    if (tensor.status().code() == StatusCode::kEndOfStream) break;
    FARWRITE_REQUIRE_OK(tensor.status());
    ++taken;
    FARWRITE_REQUIRE(tensor->size() == kWords * sizeof(std::uint64_t));
    std::vector<std::uint64_t> words(kWords);
    std::memcpy(words.data(), tensor->data(), tensor->size());
    if (std::count(words.begin(), words.end(), taken) != kWords) {
      give_up(__FILE__, __LINE__,
              "tensor " + std::to_string(taken) + " is lost or torn: it starts with " +
                  std::to_string(words.front()) + " and ends with " + std::to_string(words.back()));
    }
    if (taken % kTellEvery == 0) say("streams " + std::to_string(core::now_ns()));
  }
  say("took " + std::to_string(taken));
  say("silences " + std::to_string(channel->stats().silences));
  hear_the_end();
  return 0;
}
const RoleRegistration kSink("stream sink", stream_sink);

class StoppedStream : public FaultTest, public ::testing::WithParamInterface<NamedFabric> {
 protected:
  void SetUp() override {
    if (!GetParam().encrypt) return;
    const Status usable = core::TlsLibrary::open().status();
    if (!usable.ok()) GTEST_SKIP() << usable.message();
  }
  // Waits for a tensor that was taken after this call.
  static void expect_progress(ChildProcess& sink) {
    const std::int64_t now = core::now_ns();
    for (std::string at = sink.wait_for("streams"); !at.empty(); at = sink.wait_for("streams")) {
      if (std::stoll(at) > now) return;
    }
  }
};

TEST_P(StoppedStream, LosesNothingAndGoesOnAfterEitherSideWasStopped) {
  ChildProcess sink("stream sink", {GetParam().name});
  const std::string endpoint = sink.wait_for("endpoint");
  ChildProcess source("stream source", {endpoint, GetParam().name});
  for (ChildProcess* stopped : {&source, &sink}) {
    expect_progress(sink);
    stopped->stop();
    std::this_thread::sleep_for(kStoppedFor);
    stopped->resume();
    expect_progress(sink);
  }
  source.tell("enough");
  const std::string sent = source.wait_for("sent");
  EXPECT_EQ(sink.wait_for("took"), sent);
  EXPECT_NE(sink.wait_for("silences"), "0") << "the source was not stopped for long enough";
  EXPECT_EQ(source.finish(), 0);
  EXPECT_EQ(sink.finish(), 0);
}

INSTANTIATE_TEST_SUITE_P(, StoppedStream, ::testing::ValuesIn(kNamedFabrics),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace farwrite::fault
