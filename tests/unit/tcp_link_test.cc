// TcpLink against a peer that speaks frames by hand, and against another TcpLink.
#include "fabric/tcp/tcp_link.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstring>
#include <vector>

#include "core/status_wire.h"
#include "fabric/tcp/frame.h"

namespace farwrite::fabric::tcp {
namespace {

constexpr std::uint64_t kBytes = 8192;

struct Recorder final : EventSink, LinkObserver {
  bool has_room() const override { return room > 0; }
  void on_notification(Notification&& notification) override {
    --room;
    taken.push_back(std::move(notification));
  }
  void on_record(Notification&& record) override { records.push_back(std::move(record)); }
  void on_peer_dead(const Status& reason) override { dead = reason; }
  void on_link_error(const Status& reason) override { broken = reason; }
  bool may_read(std::uint64_t, std::uint64_t offset, std::uint64_t length) override {
    return offset >= leased_from && offset - leased_from + length <= leased;
  }

  std::uint64_t leased_from = 0;
  std::uint64_t leased = UINT64_MAX;
  int room = 1 << 30;
  std::vector<Notification> taken;
  std::vector<Notification> records;
  Status dead;
  Status broken;
};

struct Side {
  Side() {
    memory::SegmentOptions options;
    options.bytes = kBytes;
    options.use = memory::SegmentUse::kLanding;
    landing = memory::Segment::create(options).value();
    options.use = memory::SegmentUse::kExport;
    shown = memory::Segment::create(options).value();
    std::memset(landing->base(), 0, kBytes);
    std::memset(shown->base(), 0x5a, kBytes);
    export_key = exports->add(shown);
  }
  void open(int socket) {
    std::vector<std::unique_ptr<core::ByteStream>> streams;
    streams.push_back(core::make_plain_stream(core::UniqueFd(socket)));
    AttachRequest request;
    request.peer_name = "the peer";
    request.observer = &recorder;
    link = TcpLink::create(std::move(streams), request, exports).value();
    grant_key = link->grant(landing, 1024, 4096, 1).value();
  }
  Progress poll() { return link->lane(0).poll(recorder); }
  bool untouched() const {
    for (std::uint64_t i = 0; i < kBytes; ++i) {
      if (landing->base()[i] != std::byte{0}) return false;
    }
    return true;
  }

  std::shared_ptr<memory::Segment> landing, shown;
  std::shared_ptr<ExportTable> exports = std::make_shared<ExportTable>();
  std::uint64_t export_key = 0, grant_key = 0;
  Recorder recorder;
  std::unique_ptr<TcpLink> link;
};

std::array<core::UniqueFd, 2> connected() {
  std::array<int, 2> pair{};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair.data()), 0);
  return {core::UniqueFd(pair[0]), core::UniqueFd(pair[1])};
}

// A TcpLink, and a peer that writes what it likes.
class ForgedPeer : public testing::Test {
 protected:
  ForgedPeer() {
    auto sockets = connected();
    side_.open(sockets[0].release());
    peer_ = std::move(sockets[1]);
  }

  void send(const void* data, std::size_t size) {
    ASSERT_EQ(::send(peer_.get(), data, size, MSG_NOSIGNAL), static_cast<ssize_t>(size));
  }
  void send(const FrameHeader& header, const std::vector<char>& payload = {}) {
    const HeaderBytes bytes = header.to_bytes();
    send(bytes.data(), bytes.size());
    if (!payload.empty()) send(payload.data(), payload.size());
  }
  FrameHeader write(std::uint64_t offset, std::uint64_t length) const {
    FrameHeader header;
    header.type = FrameType::kWrite;
    header.flags = kNotifyFlag;
    header.tag = 7;
    header.key = side_.grant_key;
    header.offset = offset;
    header.length = length;
    return header;
  }
  FrameHeader read(std::uint64_t key, std::uint64_t offset, std::uint64_t length) const {
    FrameHeader header;
    header.type = FrameType::kRead;
    header.key = key;
    header.offset = offset;
    header.length = length;
    header.request = 5;
    return header;
  }
  // The next frame that the link sent.
  FrameHeader answer(std::vector<std::byte>& payload) {
    side_.poll();
    HeaderBytes bytes{};
    EXPECT_EQ(::recv(peer_.get(), bytes.data(), bytes.size(), 0),
              static_cast<ssize_t>(bytes.size()));
    const FrameHeader header = FrameHeader::from_bytes(bytes.data()).value();
    payload.resize(header.payload_bytes());
    if (!payload.empty()) {
      EXPECT_EQ(::recv(peer_.get(), payload.data(), payload.size(), 0),
                static_cast<ssize_t>(payload.size()));
    }
    return header;
  }
  // What a flush says of the writes before it.
  StatusCode flushed() {
    FrameHeader flush;
    flush.type = FrameType::kFlush;
    flush.request = 9;
    send(flush);
    std::vector<std::byte> payload;
    const FrameHeader header = answer(payload);
    EXPECT_EQ(header.type, FrameType::kFlushed);
    EXPECT_EQ(header.request, 9u);
    Status status;
    if (!payload.empty()) {
      EXPECT_TRUE(core::status_from_bytes({payload.data(), payload.size()}, status).ok());
    }
    return status.code();
  }
  StatusCode refused(const FrameHeader& request) {
    send(request);
    std::vector<std::byte> payload;
    const FrameHeader header = answer(payload);
    EXPECT_EQ(header.type, FrameType::kRefused);
    EXPECT_EQ(header.request, request.request);
    Status status;
    EXPECT_TRUE(core::status_from_bytes({payload.data(), payload.size()}, status).ok());
    return status.code();
  }

  Side side_;
  core::UniqueFd peer_;
};

TEST_F(ForgedPeer, WritesInsideItsGrantAndItsTagComesBehind) {
  send(write(1024, 4), {'a', 'b', 'c', 'd'});
  side_.poll();
  ASSERT_EQ(side_.recorder.taken.size(), 1u);
  EXPECT_EQ(side_.recorder.taken[0].tag, 7u);
  EXPECT_EQ(std::memcmp(side_.landing->base() + 1024, "abcd", 4), 0);
  EXPECT_EQ(flushed(), StatusCode::kOk);
}

TEST_F(ForgedPeer, IsServedTheSameByteByByte) {
  const HeaderBytes header = write(1024, 4).to_bytes();
  std::vector<std::byte> bytes(header.begin(), header.end());
  for (const char letter : {'w', 'x', 'y', 'z'}) bytes.push_back(static_cast<std::byte>(letter));
  for (const std::byte& byte : bytes) {
    EXPECT_TRUE(side_.recorder.taken.empty()) << "the tag came before the bytes";
    send(&byte, 1);
    side_.poll();
  }
  EXPECT_EQ(side_.recorder.taken.size(), 1u);
  EXPECT_EQ(std::memcmp(side_.landing->base() + 1024, "wxyz", 4), 0);
}

TEST_F(ForgedPeer, CannotWriteBesideItsGrant) {
  for (const auto& [offset, length] : std::vector<std::pair<std::uint64_t, std::uint64_t>>{
           {0, 4}, {1023, 4}, {5117, 4}, {5120, 1}, {UINT64_MAX - 1, 4}, {1024, 4097}}) {
    send(write(offset, length), std::vector<char>(length, 'x'));
    side_.poll();
    EXPECT_EQ(flushed(), StatusCode::kOutOfRange) << offset << "+" << length;
  }
  EXPECT_TRUE(side_.untouched());
  EXPECT_TRUE(side_.recorder.taken.empty()) << "a refused write raised its tag";
  EXPECT_EQ(flushed(), StatusCode::kOk) << "told once";
}

TEST_F(ForgedPeer, CannotWriteUnderAKeyItWasNotGiven) {
  FrameHeader header = write(1024, 4);
  header.key = side_.grant_key + 1;
  send(header, {'x', 'x', 'x', 'x'});
  EXPECT_EQ(flushed(), StatusCode::kNotFound);
  header.key = side_.export_key;
  send(header, {'x', 'x', 'x', 'x'});
  EXPECT_EQ(flushed(), StatusCode::kPermissionDenied);
  ASSERT_TRUE(side_.link->revoke(side_.grant_key, 1, core::Deadline::never()).ok());
  send(write(1024, 4), {'x', 'x', 'x', 'x'});
  EXPECT_EQ(flushed(), StatusCode::kFailedPrecondition);
  EXPECT_TRUE(side_.untouched());
  EXPECT_TRUE(side_.recorder.taken.empty());
}

TEST_F(ForgedPeer, WritesNoByteAfterItsGrantIsRevokedAlsoInTheMiddleOfAWrite) {
  send(write(1024, 4000), std::vector<char>(1500, 'x'));
  side_.poll();
  EXPECT_EQ(side_.landing->base()[1024], std::byte{'x'});
  ASSERT_TRUE(side_.link->revoke(side_.grant_key, 1, core::Deadline::never()).ok());
  std::memset(side_.landing->base(), 0, kBytes);
  const std::vector<char> rest(2500, 'y');
  send(rest.data(), rest.size());
  side_.poll();
  EXPECT_TRUE(side_.untouched());
  EXPECT_TRUE(side_.recorder.taken.empty()) << "a torn write raised its tag";
  EXPECT_EQ(flushed(), StatusCode::kFailedPrecondition);
}

TEST_F(ForgedPeer, ReadsWhatIsShownAndNothingElse) {
  send(read(side_.export_key, 100, 50));
  std::vector<std::byte> payload;
  const FrameHeader header = answer(payload);
  EXPECT_EQ(header.type, FrameType::kReadReply);
  EXPECT_EQ(payload, std::vector<std::byte>(50, std::byte{0x5a}));
  EXPECT_EQ(refused(read(side_.export_key, kBytes - 1, 2)), StatusCode::kOutOfRange);
  EXPECT_EQ(refused(read(side_.export_key, UINT64_MAX, 2)), StatusCode::kOutOfRange);
  EXPECT_EQ(refused(read(side_.export_key, 0, UINT64_MAX)), StatusCode::kOutOfRange);
  EXPECT_EQ(refused(read(side_.export_key + 1000, 0, 2)), StatusCode::kNotFound);
  EXPECT_EQ(refused(read(side_.grant_key, 1024, 2)), StatusCode::kPermissionDenied);
  side_.recorder.leased_from = 1000;
  side_.recorder.leased = 10;
  EXPECT_EQ(refused(read(side_.export_key, 999, 2)), StatusCode::kPermissionDenied);
  EXPECT_EQ(refused(read(side_.export_key, 1009, 2)), StatusCode::kPermissionDenied);
  send(read(side_.export_key, 1000, 10));
  EXPECT_EQ(answer(payload).type, FrameType::kReadReply);
  side_.link->cut(/*in_good_order=*/false);
}

TEST_F(ForgedPeer, AnswersReadsThatEndedAndNoByteLandsAlsoInTheMiddleOfAnAnswer) {
  std::vector<char> destination(4000, 0);
  Operation read;
  read.kind = OperationKind::kRead;
  read.window = std::make_shared<TcpWindow>();
  read.destination = {reinterpret_cast<std::byte*>(destination.data()), destination.size()};
  const std::vector<Completion> reads = {side_.link->lane(0).post(read),
                                         side_.link->lane(0).post(read)};
  std::vector<std::byte> nothing;
  for (int i = 0; i < 2; ++i) EXPECT_EQ(answer(nothing).type, FrameType::kRead);
  FrameHeader reply;
  reply.type = FrameType::kReadReply;
  reply.length = destination.size();
  reply.request = 1;
  send(reply, std::vector<char>(1500, 'x'));
  side_.poll();
  EXPECT_EQ(destination.front(), 'x');
  side_.link->end_reads(Status(StatusCode::kCancelled, "closed"));
  for (const Completion& ended : reads) {
    EXPECT_TRUE(ended.settled());
    EXPECT_EQ(ended.wait().code(), StatusCode::kCancelled);
  }
  destination.assign(destination.size(), 0);
  const std::vector<char> rest(2500, 'y');
  send(rest.data(), rest.size());
  reply.request = 2;
  send(reply, std::vector<char>(destination.size(), 'z'));
  EXPECT_EQ(flushed(), StatusCode::kOk);
  EXPECT_EQ(destination, std::vector<char>(destination.size(), 0));
  EXPECT_TRUE(side_.recorder.broken.ok()) << side_.recorder.broken.to_string();
}

TEST_F(ForgedPeer, ThatBreaksTheProtocolPoisonsTheLink) {
  std::vector<FrameHeader> breakers(6);
  breakers[0].type = FrameType::kMessage;
  breakers[0].length = kMaxMessageBytes + 1;
  breakers[1].type = FrameType::kReadReply;  // nothing asked
  breakers[2].type = FrameType::kFlushed;
  breakers[3].type = FrameType::kCredit;
  breakers[3].length = 1;
  breakers[4].type = FrameType::kNotify;
  breakers[4].flags = kNotifyFlag;
  breakers[5].type = static_cast<FrameType>(200);
  for (const FrameHeader& breaker : breakers) {
    Side side;
    auto sockets = connected();
    side.open(sockets[0].release());
    const HeaderBytes bytes = breaker.to_bytes();
    ASSERT_EQ(::send(sockets[1].get(), bytes.data(), bytes.size(), 0), ssize_t{kFrameHeaderBytes});
    side.poll();
    EXPECT_EQ(side.recorder.broken.code(), StatusCode::kProtocolError)
        << static_cast<int>(breaker.type);
    EXPECT_TRUE(side.recorder.dead.ok());
    Operation flush;
    flush.kind = OperationKind::kNotify;
    EXPECT_FALSE(side.link->lane(0).post(flush).wait().ok());
  }
}

TEST_F(ForgedPeer, ThatSendsNotificationsWithoutCreditPoisonsTheLink) {
  side_.recorder.room = 0;
  FrameHeader notify;
  notify.type = FrameType::kNotify;
  for (std::uint64_t i = 0; i < kCreditWindow / kNotificationCost; ++i) {
    send(notify);
    if (i % 256 == 0) side_.poll();
  }
  while (side_.poll().delivered > 0) {
  }
  EXPECT_TRUE(side_.recorder.broken.ok());
  send(notify);
  for (int i = 0; i < 100; ++i) side_.poll();
  EXPECT_EQ(side_.recorder.broken.code(), StatusCode::kProtocolError);
  EXPECT_NE(side_.recorder.broken.message().find("credit"), std::string::npos);
}

TEST_F(ForgedPeer, ThatHangsUpIsDeadAndLeavesWhatHadArrived) {
  send(write(1024, 4), {'a', 'b', 'c', 'd'});
  send(write(2048, 100), {'t', 'o', 'r', 'n'});
  Operation operation;
  operation.kind = OperationKind::kRead;
  std::array<std::byte, 8> destination{};
  operation.destination = {destination.data(), destination.size()};
  RegionDescriptor descriptor;
  descriptor.length = 8;
  descriptor.keys.push_back({FabricKind::kTcp, 1});
  operation.window = side_.link->import(descriptor, core::Deadline::never()).value();
  const Completion read = side_.link->lane(0).post(operation);
  peer_.reset();
  Progress progress;
  for (int i = 0; i < 3; ++i) progress = side_.poll();
  EXPECT_TRUE(progress.drained);
  EXPECT_EQ(side_.recorder.taken.size(), 1u) << "the torn write must raise nothing";
  EXPECT_EQ(side_.recorder.dead.code(), StatusCode::kPeerDead);
  EXPECT_TRUE(read.settled());
  EXPECT_EQ(read.wait().code(), StatusCode::kPeerDead);
}

// Two links face to face, polled by one thread.
class TwoLinks : public testing::Test {
 protected:
  TwoLinks() {
    auto sockets = connected();
    near_.open(sockets[0].release());
    far_.open(sockets[1].release());
  }
  Completion notify(Side& from, std::uint32_t tag) {
    Operation operation;
    operation.kind = OperationKind::kNotify;
    operation.tag = tag;
    return from.link->lane(0).post(operation);
  }

  Side near_, far_;
};

TEST_F(TwoLinks, ASinkWithoutRoomHoldsTheSenderBackAndLosesNothing) {
  far_.recorder.room = 10;
  constexpr std::uint32_t kCount = 40'000;
  for (std::uint32_t tag = 0; tag < kCount; ++tag) {
    const Completion completion = notify(near_, tag);
    ASSERT_TRUE(!completion.done() || completion.wait().ok());
    if (tag % 1000 == 0) far_.poll();
  }
  for (int i = 0; i < 100; ++i) far_.poll(), near_.poll();
  EXPECT_EQ(far_.recorder.taken.size(), 10u);
  EXPECT_GT(near_.link->counters().backlogged, 0u);
  far_.recorder.room = 1 << 30;
  for (int i = 0; i < 10'000 && far_.recorder.taken.size() < kCount; ++i) {
    far_.poll();
    near_.poll();
  }
  ASSERT_GE(far_.recorder.taken.size(), kCount);
  for (std::uint32_t i = 0; i < kCount; ++i) ASSERT_EQ(far_.recorder.taken[i].tag, i);
}

TEST_F(TwoLinks, TooManyThatWaitAreRefusedAndTheLinkGoesOn) {
  far_.recorder.room = 0;
  Status refusal;
  for (std::uint32_t tag = 0; tag < 200'000 && refusal.ok(); ++tag) {
    const Completion completion = notify(near_, tag);
    if (completion.done()) refusal = completion.wait();
    if (tag % 1000 == 0) far_.poll();
  }
  EXPECT_EQ(refusal.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(refusal.message().find("let the peer take its notifications"), std::string::npos);
  far_.recorder.room = 1 << 30;
  for (int i = 0; i < 2000; ++i) far_.poll(), near_.poll();
  EXPECT_TRUE(notify(near_, 1).wait(std::chrono::seconds(0)).ok());
}

TEST_F(TwoLinks, WriteInBothDirectionsAtOnceWithoutADeadlock) {
  constexpr int kWrites = 2000;  // many times what the kernel buffers
  const std::vector<std::byte> bytes(4096, std::byte{1});
  std::vector<Completion> completions;
  for (auto [from, to] : {std::pair{&near_, &far_}, std::pair{&far_, &near_}}) {
    RegionDescriptor descriptor;
    descriptor.offset = 1024;
    descriptor.length = 4096;
    descriptor.keys.push_back({FabricKind::kTcp, to->grant_key});
    Operation operation;
    operation.notify = true;
    operation.source = {bytes.data(), bytes.size()};
    operation.window = from->link->import(descriptor, core::Deadline::never()).value();
    for (int i = 0; i < kWrites; ++i) completions.push_back(from->link->lane(0).post(operation));
  }
  for (int i = 0; i < 100'000 && far_.recorder.taken.size() + near_.recorder.taken.size() <
                                     std::size_t{2 * kWrites};
       ++i) {
    near_.poll();
    far_.poll();
  }
  EXPECT_EQ(near_.recorder.taken.size(), std::size_t{kWrites});
  EXPECT_EQ(far_.recorder.taken.size(), std::size_t{kWrites});
  for (const Completion& completion : completions) EXPECT_TRUE(completion.settled());
}

TEST_F(TwoLinks, RefusedWritesCostTheirSenderNoCredit) {
  ASSERT_TRUE(far_.link->revoke(far_.grant_key, 1, core::Deadline::never()).ok());
  RegionDescriptor descriptor;
  descriptor.length = 8;
  descriptor.keys.push_back({FabricKind::kTcp, far_.grant_key});
  const std::array<std::byte, 8> bytes{};
  Operation write;
  write.notify = true;
  write.source = {bytes.data(), bytes.size()};
  write.window = near_.link->import(descriptor, core::Deadline::never()).value();
  for (std::uint64_t i = 0; i < 3 * kCreditWindow / kNotificationCost; ++i) {
    (void)near_.link->lane(0).post(write);
    if (i % 64 == 0) far_.poll(), near_.poll();
  }
  for (int i = 0; i < 1000; ++i) far_.poll(), near_.poll();
  EXPECT_TRUE(notify(near_, 77).wait(std::chrono::seconds(0)).ok());
  for (int i = 0; i < 10; ++i) far_.poll();
  ASSERT_EQ(far_.recorder.taken.size(), 1u);
  EXPECT_EQ(far_.recorder.taken[0].tag, 77u);
}

TEST_F(TwoLinks, ARefusedWriteRaisesNoTagAlsoWhenItsSenderHadNoCredit) {
  far_.recorder.room = 0;
  for (std::uint64_t i = 0; i < kCreditWindow / kNotificationCost; ++i) {
    ASSERT_TRUE(notify(near_, 1).wait().ok());
    if (i % 256 == 0) far_.poll();
  }
  RegionDescriptor descriptor;
  descriptor.offset = 1024;
  descriptor.length = 8;
  descriptor.keys.push_back({FabricKind::kTcp, far_.grant_key});
  const std::array<std::byte, 8> bytes{std::byte{9}};
  Operation write;
  write.notify = true;
  write.tag = 88;
  write.source = {bytes.data(), bytes.size()};
  write.window = near_.link->import(descriptor, core::Deadline::never()).value();
  (void)near_.link->lane(0).post(write);  // allowed
  for (int i = 0; i < 10; ++i) far_.poll();
  ASSERT_TRUE(far_.link->revoke(far_.grant_key, 1, core::Deadline::never()).ok());
  write.tag = 99;
  (void)near_.link->lane(0).post(write);  // refused
  far_.recorder.room = 1 << 30;
  for (int i = 0; i < 1000; ++i) far_.poll(), near_.poll();
  for (const Notification& one : far_.recorder.taken) EXPECT_NE(one.tag, 99u);
  EXPECT_TRUE(notify(near_, 5).wait(std::chrono::seconds(0)).ok());
}

// Without that its poller would sleep, and find the answer when it looks again.
TEST_F(TwoLinks, AnAnswerIsWaitedForOnTheDoorbell) {
  RegionDescriptor descriptor;
  descriptor.length = 8;
  descriptor.keys.push_back({FabricKind::kTcp, far_.export_key});
  std::array<std::byte, 8> bytes{};
  Operation read;
  read.kind = OperationKind::kRead;
  read.destination = {bytes.data(), bytes.size()};
  read.window = near_.link->import(descriptor, core::Deadline::never()).value();
  const Completion completion = near_.link->lane(0).post(read);
  EXPECT_TRUE(near_.poll().awaits);
  EXPECT_FALSE(far_.poll().awaits);
  EXPECT_FALSE(near_.poll().awaits);
  EXPECT_TRUE(completion.wait(std::chrono::seconds(0)).ok());
}

TEST_F(TwoLinks, TheEndOfALaneIsSeenBehindEverythingBeforeIt) {
  for (std::uint32_t tag = 0; tag < 3; ++tag) ASSERT_TRUE(notify(near_, tag).wait().ok());
  Operation end;
  end.kind = OperationKind::kEnd;
  EXPECT_FALSE(far_.poll().drained);
  ASSERT_TRUE(near_.link->lane(0).post(end).wait().ok());
  Progress progress = far_.poll();
  EXPECT_TRUE(progress.drained);
  EXPECT_EQ(far_.recorder.taken.size(), 3u);
}

}  // namespace
}  // namespace farwrite::fabric::tcp
