// The simulated fabric's own promises: pairing, keys, faults and doorbells. What it shares with
// every fabric is in tests/conformance; what chance may do to it is in adversary_test.cc.
#include <gtest/gtest.h>
#include <poll.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "memory/segment.h"
#include "simulated/simulated_fabric.h"
#include "simulated/simulated_kind.h"

namespace farwrite::fabric {
namespace {

constexpr std::uint64_t kBytes = 8192;

std::shared_ptr<memory::Segment> simulated_segment(memory::SegmentUse use) {
  memory::SegmentOptions options;
  options.bytes = kBytes;
  options.use = use;
  options.huge_pages = memory::HugePages::kOff;
  return memory::Segment::create(options).value();
}

struct Inbox final : EventSink, LinkObserver {
  void on_notification(Notification&& notification) override {
    taken.push_back(std::move(notification));
  }
  void on_peer_dead(const Status& reason) override { deaths.push_back(reason); }
  void on_link_error(const Status&) override {}

  std::vector<Notification> taken;
  std::vector<Status> deaths;
};

bool readable(int fd) {
  pollfd entry{fd, POLLIN, 0};
  return ::poll(&entry, 1, 0) == 1;
}

class SimulatedFabricTest : public testing::Test {
 protected:
  void SetUp() override {
    ours_ = attach(our_fabric_, our_inbox_, true);
    theirs_ = attach(their_fabric_, their_inbox_, false);
    key_ = theirs_->grant(landing_, 4096, 1024, 1).value();
    window_ = ours_->import(describe(key_, 4096, 1024), core::Deadline::never()).value();
  }

  std::unique_ptr<Link> attach(SimulatedFabric& fabric, Inbox& inbox, bool connecting) {
    AttachRequest request;
    request.connecting = connecting;
    request.peer_name = "127.0.0.1:7777";
    request.peer_address = their_fabric_.address();
    request.lanes = 2;
    request.observer = &inbox;
    return fabric.attach(request).value();
  }

  static RegionDescriptor describe(std::uint64_t key, std::uint64_t offset, std::uint64_t length) {
    RegionDescriptor descriptor;
    descriptor.offset = offset;
    descriptor.length = length;
    descriptor.keys = {{FabricKind::kShm, 99}, {kSimulated, key}};
    return descriptor;
  }

  Operation write(ByteView source, std::uint64_t offset = 0) const {
    Operation operation;
    operation.source = source;
    operation.window = window_;
    operation.offset = offset;
    return operation;
  }

  Completion flush() {
    Operation operation;
    operation.kind = OperationKind::kFlush;
    return ours_->lane(0).post(operation);
  }

  void drain() {
    for (int turn = 0; turn < 100'000; ++turn) {
      bool pending = false;
      for (std::uint32_t lane : {0U, 1U}) {
        pending |= ours_ != nullptr && ours_->lane(lane).poll(our_inbox_).pending;
        pending |= theirs_ != nullptr && theirs_->lane(lane).poll(their_inbox_).pending;
      }
      if (!pending) return;
    }
    FAIL() << "the wire never empties";
  }

  SimulatedNetwork network_;
  SimulatedFabric our_fabric_{network_};
  SimulatedFabric their_fabric_{network_};
  Inbox our_inbox_, their_inbox_;
  std::shared_ptr<memory::Segment> landing_ = simulated_segment(memory::SegmentUse::kLanding);
  std::shared_ptr<memory::Segment> shown_ = simulated_segment(memory::SegmentUse::kExport);
  std::unique_ptr<Link> ours_, theirs_;
  std::uint64_t key_ = 0;
  std::shared_ptr<RemoteWindow> window_;
  std::vector<std::byte> payload_ = std::vector<std::byte>(1024, std::byte{7});
};

TEST_F(SimulatedFabricTest, AWriteLandsAtTheGrantedOffsetAndNowhereElse) {
  const Completion done = ours_->lane(0).post(write({payload_.data(), 100}, 10));
  drain();
  EXPECT_TRUE(done.wait().ok());
  for (std::uint64_t i = 0; i < landing_->bytes(); ++i) {
    const bool inside = i >= 4096 + 10 && i < 4096 + 110;
    ASSERT_EQ(landing_->base()[i], inside ? std::byte{7} : std::byte{0}) << "byte " << i;
  }
}

TEST_F(SimulatedFabricTest, TheTargetRefusesBytesBesideTheGrantedOnes) {
  const Completion done = ours_->lane(0).post(write({payload_.data(), 100}, 1000));
  drain();
  const Completion flushed = flush();
  drain();
  EXPECT_EQ(flushed.wait().code(), StatusCode::kOutOfRange) << flushed.wait().to_string();
}

TEST_F(SimulatedFabricTest, TheTargetRefusesARevokedKey) {
  ASSERT_TRUE(theirs_->revoke(key_, 1, core::Deadline::never()).ok());
  (void)ours_->lane(0).post(write({payload_.data(), 100}));
  const Completion flushed = flush();
  drain();
  EXPECT_EQ(flushed.wait().code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(flushed.wait().message().find("closed by its owner"), std::string::npos);
  EXPECT_EQ(landing_->base()[4096], std::byte{0});
  EXPECT_EQ(ours_->import(describe(key_, 4096, 1024), core::Deadline::never()).status().code(),
            StatusCode::kFailedPrecondition);
}

TEST_F(SimulatedFabricTest, AGrantIsForItsLinkOnly) {
  Inbox inbox;
  SimulatedFabric third(network_);
  AttachRequest request;
  request.secret[0] = std::byte{1};
  request.observer = &inbox;
  const auto accepted = their_fabric_.attach(request).value();
  request.connecting = true;
  request.peer_address = their_fabric_.address();
  const auto foreign = third.attach(request).value();
  EXPECT_EQ(foreign->import(describe(key_, 4096, 1024), core::Deadline::never()).status().code(),
            StatusCode::kNotFound);
}

TEST_F(SimulatedFabricTest, AnExportSegmentIsMappedAndReadButNeverWritten) {
  std::memset(shown_->base(), 0x31, shown_->bytes());
  const std::uint64_t key = their_fabric_.register_segment(shown_).value();
  window_ = ours_->import(describe(key, 64, 512), core::Deadline::never()).value();
  EXPECT_EQ(window_->mapped, shown_->base() + 64);

  Operation read;
  read.kind = OperationKind::kRead;
  read.destination = MutableByteView(payload_.data(), 512);
  read.window = window_;
  const Completion filled = ours_->lane(0).post(read);
  drain();
  EXPECT_TRUE(filled.wait().ok());
  EXPECT_EQ(payload_[511], std::byte{0x31});
  EXPECT_EQ(payload_[512], std::byte{7});

  (void)ours_->lane(0).post(write({payload_.data() + 512, 8}));
  const Completion flushed = flush();
  drain();
  EXPECT_EQ(flushed.wait().code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(shown_->base()[64], std::byte{0x31});
}

TEST_F(SimulatedFabricTest, APartitionHoldsEverythingBackUntilItHeals) {
  network_.partition(their_fabric_.address(), true);
  Operation notify;
  notify.kind = OperationKind::kNotify;
  notify.tag = 5;
  (void)ours_->lane(0).post(notify);
  const Completion flushed = flush();
  drain();
  EXPECT_FALSE(flushed.done());
  EXPECT_TRUE(their_inbox_.taken.empty());
  EXPECT_TRUE(our_inbox_.deaths.empty()) << "silence is not death";

  const Doorbell bell = theirs_->lane(0).arm();
  EXPECT_FALSE(bell.ready);
  network_.partition(their_fabric_.address(), false);
  EXPECT_TRUE(readable(bell.fd)) << "healing must wake sleepers";
  drain();
  EXPECT_TRUE(flushed.wait().ok());
  ASSERT_EQ(their_inbox_.taken.size(), 1U);
  EXPECT_EQ(their_inbox_.taken[0].tag, 5U);
}

TEST_F(SimulatedFabricTest, AKilledHostIsReportedOnceAndEndsWhatIsPending) {
  network_.partition(their_fabric_.address(), true);
  const Completion flushed = flush();
  const std::string address = their_fabric_.address();
  network_.kill(address);
  network_.kill(address);
  EXPECT_EQ(flushed.wait().code(), StatusCode::kPeerDead);
  EXPECT_EQ(ours_->lane(0).post(write({payload_.data(), 8})).wait().code(), StatusCode::kPeerDead);
  ASSERT_EQ(our_inbox_.deaths.size(), 1U);
  EXPECT_TRUE(their_inbox_.deaths.empty());
  AttachRequest request;
  request.connecting = true;
  request.peer_address = address;
  EXPECT_EQ(our_fabric_.attach(request).status().code(), StatusCode::kUnavailable);
  SimulatedFabric restarted(network_);
  EXPECT_NE(restarted.address(), address);
}

TEST_F(SimulatedFabricTest, WhatWasLocalCompleteTravelsOnAfterItsSenderLeft) {
  int completed = 0;
  for (std::uint32_t tag = 0; tag < 40; ++tag) {
    Operation operation = write({payload_.data(), 16});
    operation.notify = true;
    operation.tag = tag;
    completed += ours_->lane(0).post(operation).done() ? 1 : 0;
  }
  ours_.reset();
  drain();
  EXPECT_GT(completed, 0);
  EXPECT_EQ(their_inbox_.taken.size(), static_cast<std::size_t>(completed));
  EXPECT_TRUE(their_inbox_.deaths.empty()) << "a link that ends in good order is no death";
}

TEST_F(SimulatedFabricTest, AnArmedDoorbellRingsWhenANotificationIsReady) {
  const Doorbell bell = theirs_->lane(1).arm();
  EXPECT_FALSE(bell.ready);
  EXPECT_FALSE(readable(bell.fd));
  Operation notify;
  notify.kind = OperationKind::kNotify;
  (void)ours_->lane(1).post(notify);
  while (ours_->lane(0).poll(our_inbox_).pending) {
  }
  EXPECT_TRUE(readable(bell.fd));
  EXPECT_TRUE(theirs_->lane(1).arm().ready);
  EXPECT_EQ(theirs_->lane(1).poll(their_inbox_).delivered, 1U);
  EXPECT_FALSE(readable(bell.fd)) << "a poll empties the doorbell";
}

TEST_F(SimulatedFabricTest, AMessageThatIsTooLongIsRefused) {
  const std::vector<std::byte> text(kSimulatedMaxMessageBytes + 1);
  Operation message;
  message.kind = OperationKind::kMessage;
  message.source = ByteView(text.data(), text.size());
  EXPECT_EQ(ours_->lane(0).post(message).wait().code(), StatusCode::kInvalidArgument);
  message.source = ByteView(text.data(), kSimulatedMaxMessageBytes);
  (void)ours_->lane(0).post(message);
  drain();
  ASSERT_EQ(their_inbox_.taken.size(), 1U);
  EXPECT_EQ(their_inbox_.taken[0].message.size(), kSimulatedMaxMessageBytes);
}

}  // namespace
}  // namespace farwrite::fabric
