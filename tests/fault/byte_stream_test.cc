// Byte streams whose peer dies, stops or never reads, and more bytes than any window holds.
#include "fault/byte_stream.h"

#include <pthread.h>

#include <algorithm>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "fault/child_process.h"
#include "fault/named_fabric.h"
#include "fault/role.h"
#include "no_more_threads.h"

namespace farwrite::fault {
namespace {

// Long enough to be taken for silent.
constexpr std::chrono::milliseconds kStopped(800);

// Writes as many blocks as the third argument says, in one stream, once it is told to.
int byte_writer(const Arguments& arguments) {
  auto device = Device::open(options_of(arguments.at(1)));
  FARWRITE_REQUIRE_OK(device.status());
  auto channel = device->connect(Endpoint::parse(arguments.at(0)).value(), kPatience);
  FARWRITE_REQUIRE_OK(channel.status());
  ByteStream stream(*device, *channel);
  say("open");
  FARWRITE_REQUIRE(hear().has_value());
  FARWRITE_REQUIRE_OK(stream.write_blocks(std::stoull(arguments.at(2))));
  FARWRITE_REQUIRE_OK(stream.finish());
  hear_the_end();
  return 0;
}
const RoleRegistration kByteWriter("byte writer", byte_writer);

// Reads blocks up to the end, once it is told to, and says how many.
int byte_reader(const Arguments& arguments) {
  auto device = Device::open(options_of(arguments.at(1)));
  FARWRITE_REQUIRE_OK(device.status());
  auto channel = device->connect(Endpoint::parse(arguments.at(0)).value(), kPatience);
  FARWRITE_REQUIRE_OK(channel.status());
  ByteStream stream(*device, *channel);
  say("open");
  FARWRITE_REQUIRE(hear().has_value());
  BlockCheck check;
  for (std::uint64_t count = 16; check.blocks() + 16 >= count; count += 16) {
    FARWRITE_REQUIRE_OK(stream.read_blocks(check, count));
    FARWRITE_REQUIRE(check.right());
    say("at " + std::to_string(check.blocks()));
    if (check.blocks() < count) break;
  }
  say("read " + std::to_string(check.blocks()));
  hear_the_end();
  return 0;
}
const RoleRegistration kByteReader("byte reader", byte_reader);

class ByteStreams : public FaultTest, public ::testing::WithParamInterface<NamedFabric> {
 protected:
  void TearDown() override {
    stream_.reset();
    channel_ = Channel();
    EXPECT_TRUE(device_.close(kPatience).ok());
    device_ = Device();
    FaultTest::TearDown();
  }
  std::vector<std::string> arguments(std::uint64_t blocks = 0) const {
    return {device_.endpoint().to_string(), GetParam().name, std::to_string(blocks)};
  }
  // Both ends are open after it.
  void meet(ChildProcess& child) {
    channel_ = device_.accept(kPatience).value();
    stream_.emplace(device_, channel_);
    child.wait_for("open");
  }
  bool nothing_is_held() {
    return eventually([&] {
      const DeviceStats stats = device_.stats();
      return stats.send.used == 0 && stats.leases_held_by_peers == 0;
    });
  }

  Device device_ = open_device(options_of(GetParam().name));
  Channel channel_;
  std::optional<ByteStream> stream_;
};

TEST_P(ByteStreams, AWriterKilledInTheMiddleIsAnErrorForTheReader) {
  ChildProcess writer("byte writer", arguments(1 << 20));
  meet(writer);
  writer.tell("go");
  BlockCheck check;
  ASSERT_TRUE(stream_->read_blocks(check, 20).ok());
  Result<std::vector<stream::Slice>> kept = stream_->read();
  ASSERT_TRUE(kept.ok()) << kept.status().to_string();
  check.take(*kept);
  const ByteView first = kept->front().bytes;
  const std::vector<std::byte> seen(first.data, first.data + first.size);
  writer.kill();
  // What had come may still be read, then there is the error.
  const Status ended = stream_->read_blocks(check);
  // Memory that was lent last may have gone before the death is proven.
  const bool died =
      ended.code() == StatusCode::kPeerDead ||
      (GetParam().name == std::string("shm") && ended.code() == StatusCode::kUnavailable);
  EXPECT_TRUE(died) << ended.to_string();
  EXPECT_EQ(stream_->read().status().code(), ended.code());
  EXPECT_FALSE(stream_->finish().ok());
  EXPECT_TRUE(check.right());
  EXPECT_GE(check.blocks(), 20U);
  EXPECT_LT(check.blocks(), 1U << 20);
  const ByteView outlives = kept->front().bytes;
  EXPECT_TRUE(std::equal(seen.begin(), seen.end(), outlives.data, outlives.data + outlives.size));
  kept->clear();
  stream_.reset();  // it keeps what it was reading
  EXPECT_TRUE(nothing_is_held());
}

TEST_P(ByteStreams, AReaderKilledInTheMiddleEndsTheWrites) {
  ChildProcess reader("byte reader", arguments());
  meet(reader);
  std::vector<std::future<Status>> writes;
  for (std::uint64_t i = 1; i <= 48; ++i)
    writes.push_back(stream_->begin_write({stream_->block(i)}));
  reader.tell("read");
  reader.wait_for("at");
  for (std::uint64_t i = 49; i <= 96; ++i) {
    writes.push_back(stream_->begin_write({stream_->block(i)}));
  }
  reader.kill();
  EXPECT_EQ(stream_->write_blocks(1 << 20).code(), StatusCode::kPeerDead);
  for (auto& write : writes) {
    ASSERT_EQ(write.wait_for(kPatience), std::future_status::ready);
    const Status outcome = write.get();
    EXPECT_TRUE(outcome.ok() || outcome.code() == StatusCode::kPeerDead) << outcome.to_string();
  }
  EXPECT_EQ(stream_->read().status().code(), StatusCode::kPeerDead);
  EXPECT_TRUE(nothing_is_held());
}

TEST_P(ByteStreams, NothingIsLostWhileEitherSideIsStopped) {
  constexpr std::uint64_t kBlocks = 400;
  {
    ChildProcess writer("byte writer", arguments(kBlocks));
    meet(writer);
    writer.tell("go");
    BlockCheck check;
    ASSERT_TRUE(stream_->read_blocks(check, kBlocks / 4).ok());
    writer.stop();
    std::this_thread::sleep_for(kStopped);
    EXPECT_TRUE(eventually([&] { return channel_.stats().silences > 0; }));
    writer.resume();
    const Status ended = stream_->read_blocks(check);
    EXPECT_TRUE(ended.ok()) << ended.to_string();
    EXPECT_EQ(check.blocks(), kBlocks);
    EXPECT_TRUE(check.right());
    EXPECT_EQ(writer.finish(), 0);
  }
  ChildProcess reader("byte reader", arguments());
  meet(reader);
  reader.tell("read");
  ASSERT_TRUE(stream_->write_blocks(kBlocks / 2).ok());
  reader.stop();
  // More than the windows hold.
  std::vector<std::future<Status>> writes;
  for (std::uint64_t i = kBlocks / 2 + 1; i <= kBlocks; ++i) {
    writes.push_back(stream_->begin_write({stream_->block(i)}));
  }
  EXPECT_EQ(writes.back().wait_for(kStopped), std::future_status::timeout);
  reader.resume();
  for (auto& write : writes) {
    ASSERT_EQ(write.wait_for(kPatience), std::future_status::ready);
    EXPECT_TRUE(write.get().ok());
  }
  EXPECT_TRUE(stream_->finish().ok());
  EXPECT_EQ(reader.wait_for("read"), std::to_string(kBlocks));
  EXPECT_EQ(reader.finish(), 0);
  EXPECT_TRUE(nothing_is_held());
}

TEST_P(ByteStreams, AReaderThatDoesNotReadHoldsTheWriterBack) {
  ChildProcess reader("byte reader", arguments());
  meet(reader);
  // A program that does as it should: it writes again when a write is done.
  std::uint64_t written = 0;
  std::future<Status> write;
  do {
    ASSERT_LT(++written, 1000U);
    const auto heap = std::make_shared<const std::vector<std::uint64_t>>(kBlockBytes / 8, written);
    write = stream_->begin_write({{.bytes = {heap->data(), kBlockBytes}, .owner = heap}});
  } while (write.wait_for(kStopped) == std::future_status::ready);
  // What the sender has lent, what a receiver that cannot map it reads ahead, what may wait at the
  // sender, and the last block.
  const stream::Options options;
  const std::uint64_t windows = channel_.maps_peer_memory() ? 1 : 2;
  const std::uint64_t most = windows * options.window + options.write_bound + kBlockBytes;
  EXPECT_LE(written * kBlockBytes, most);
  EXPECT_LE(device_.stats().send.peak_used, options.window + 2 * options.chunk);
  reader.tell("read");
  ASSERT_EQ(write.wait_for(kPatience), std::future_status::ready);
  EXPECT_TRUE(write.get().ok());
  EXPECT_TRUE(stream_->finish().ok());
  EXPECT_EQ(reader.wait_for("read"), std::to_string(written));
  EXPECT_EQ(reader.finish(), 0);
  EXPECT_TRUE(nothing_is_held());
}

TEST_P(ByteStreams, AGigabytePassesThroughTheWindow) {
  ChildProcess reader("byte reader", arguments());
  meet(reader);
  reader.tell("read");
  const Status written = stream_->write_blocks(1024);
  ASSERT_TRUE(written.ok()) << written.to_string();
  EXPECT_TRUE(stream_->finish().ok());
  EXPECT_EQ(reader.wait_for("read"), "1024");
  EXPECT_LE(device_.stats().send.peak_used,
            stream::Options().window + stream::Options().write_bound + 2 * kBlockBytes);
  EXPECT_EQ(reader.finish(), 0);
  EXPECT_TRUE(nothing_is_held());
}

INSTANTIATE_TEST_SUITE_P(, ByteStreams, ::testing::Values(kNamedFabrics[0], kNamedFabrics[1]),
                         [](const auto& info) { return std::string(info.param.name); });

using ByteStreamsWithoutThreads = FaultTest;

TEST_F(ByteStreamsWithoutThreads, AreNotMadeAndSayWhyAndTheChannelHasThemLater) {
  Device near = open_device(options_of("shm"));
  Device far = open_device(options_of("shm"));
  Channel to_far = near.connect(far.endpoint(), kPatience).value();
  Channel to_near = far.accept(kPatience).value();
  {
    Status refused;
    {
      const NoMoreThreads none;
      refused = stream::Streams::create(far, to_near).status();
    }
    expect_error(refused, StatusCode::kResourceExhausted,
                 {"map lent memory", near.endpoint().to_string(), "no thread", "ulimit -u"});
    ByteStream writer(near, to_far);
    ByteStream reader(far, to_near);
    const NoMoreThreads none;  // what maps lent memory runs already
    // A segment that arrives in time is mapped without it: the blocks are kept, so that they fill
    // many.
    std::vector<std::vector<stream::Slice>> kept;
    while (kept.size() < 16) {
      ASSERT_TRUE(writer.write_blocks(1).ok());
      kept.push_back(reader.read().value());
    }
  }
  EXPECT_TRUE(eventually([&] { return near.stats().send.used == 0; }));
  EXPECT_TRUE(near.close(kPatience).ok());
  EXPECT_TRUE(far.close(kPatience).ok());
}

}  // namespace
}  // namespace farwrite::fault
