// How a fabric pairs two sides, and what strangers at its socket can do.
#include "fabric/shm/shm_fabric.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <future>
#include <memory>
#include <utility>

#include "fabric/shm/grant_table.h"
#include "memory/segment.h"

namespace farwrite::fabric::shm {
namespace {

constexpr std::chrono::seconds kFabricHang{30};

struct QuietObserver final : LinkObserver {
  void on_peer_dead(const Status&) override {}
  void on_link_error(const Status&) override {}
};

struct QuietSink final : EventSink {
  void on_notification(Notification&& notification) override { tag = notification.tag; }
  std::uint32_t tag = 0;
};

std::shared_ptr<memory::Segment> make_export() {
  memory::SegmentOptions options;
  options.bytes = 8192;
  options.huge_pages = memory::HugePages::kOff;
  return memory::Segment::create(options).value();
}

std::size_t descriptors_now() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    ++count;
  }
  return count;
}

class ShmFabrics : public testing::Test {
 protected:
  using Attached = Result<std::unique_ptr<Link>>;

  void SetUp() override {
    loop_ = core::EventLoop::start("test").value();
    near_ = ShmFabric::create(*loop_).value();
    far_ = ShmFabric::create(*loop_).value();
  }

  AttachRequest request(bool connecting, std::uint8_t secret = 1) {
    AttachRequest request;
    request.connecting = connecting;
    request.secret.fill(std::byte{secret});
    request.peer_name = "127.0.0.1:7777";
    request.peer_address = far_->address();
    request.lanes = 2;
    request.deadline = core::Deadline::after(kFabricHang);
    request.observer = &observer_;
    return request;
  }
  std::future<Attached> accepting(AttachRequest request) {
    return std::async(std::launch::async,
                      [this, request = std::move(request)] { return far_->attach(request); });
  }
  void attach() {
    auto accepted = accepting(request(false));
    Attached connected = near_->attach(request(true));
    Attached far = accepted.get();
    ASSERT_TRUE(connected.ok()) << connected.status().to_string();
    ASSERT_TRUE(far.ok()) << far.status().to_string();
    near_link_ = *std::move(connected);
    far_link_ = *std::move(far);
  }
  static RegionDescriptor describe(std::uint64_t key) {
    RegionDescriptor descriptor;
    descriptor.length = 64;
    descriptor.keys = {{FabricKind::kShm, key}};
    return descriptor;
  }

  QuietObserver observer_;
  std::unique_ptr<core::EventLoop> loop_;
  std::unique_ptr<Fabric> near_, far_;
  std::unique_ptr<Link> near_link_, far_link_;
};

TEST_F(ShmFabrics, LinkTwoSidesThatKnowTheSameSecret) {
  ASSERT_NO_FATAL_FAILURE(attach());
  Operation notify;
  notify.kind = OperationKind::kNotify;
  notify.tag = 42;
  ASSERT_TRUE(near_link_->lane(1).post(notify).wait().ok());
  QuietSink sink;
  EXPECT_EQ(far_link_->lane(1).poll(sink).delivered, 1U);
  EXPECT_EQ(sink.tag, 42U);
  ASSERT_TRUE(far_link_->lane(1).post(notify).wait().ok());
  EXPECT_EQ(near_link_->lane(1).poll(sink).delivered, 1U);
}

TEST_F(ShmFabrics, ShowRegisteredSegmentsOnly) {
  ASSERT_NO_FATAL_FAILURE(attach());
  const auto hidden = make_export();
  auto shown = make_export();
  std::memcpy(shown->base(), "shown", 5);
  const std::uint64_t key = far_->register_segment(shown).value();
  const auto window = near_link_->import(describe(key), core::Deadline::after(kFabricHang)).value();
  EXPECT_EQ(std::memcmp(window->mapped, "shown", 5), 0);
  EXPECT_EQ(
      near_link_
          ->import(describe(GrantKey{hidden->id(), 0}.pack()), core::Deadline::after(kFabricHang))
          .status()
          .code(),
      StatusCode::kNotFound);
}

TEST_F(ShmFabrics, KeepNoSegmentAlive) {
  ASSERT_NO_FATAL_FAILURE(attach());
  auto segment = make_export();
  const std::weak_ptr<memory::Segment> alive = segment;
  const std::uint64_t key = far_->register_segment(segment).value();
  segment.reset();
  EXPECT_TRUE(alive.expired());
  EXPECT_EQ(near_link_->import(describe(key), core::Deadline::after(kFabricHang)).status().code(),
            StatusCode::kNotFound);
}

TEST_F(ShmFabrics, HaveAddressesOfTheirOwn) { EXPECT_NE(near_->address(), far_->address()); }

TEST_F(ShmFabrics, PairEachHandshakeWithItsOwnConnection) {
  auto first = accepting(request(false, 1));
  auto second = accepting(request(false, 2));
  auto connecting = std::async(std::launch::async, [&] { return near_->attach(request(true, 2)); });
  Attached one = near_->attach(request(true, 1));
  Attached two = connecting.get();
  Attached far_one = first.get();
  Attached far_two = second.get();
  ASSERT_TRUE(one.ok() && two.ok() && far_one.ok() && far_two.ok());
  Operation notify;
  notify.kind = OperationKind::kNotify;
  notify.tag = 2;
  ASSERT_TRUE((*two)->lane(0).post(notify).wait().ok());
  QuietSink sink;
  EXPECT_EQ((*far_one)->lane(0).poll(sink).delivered, 0U);
  EXPECT_EQ((*far_two)->lane(0).poll(sink).delivered, 1U);
}

TEST_F(ShmFabrics, NeverPairASideWithAnotherSecret) {
  AttachRequest wrong = request(true, 2);
  wrong.deadline = core::Deadline::after(std::chrono::milliseconds(200));
  AttachRequest waiting = request(false, 1);
  waiting.deadline = wrong.deadline;
  auto accepted = accepting(waiting);
  EXPECT_EQ(near_->attach(wrong).status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(accepted.get().status().code(), StatusCode::kUnavailable);
}

TEST_F(ShmFabrics, StopWaitingForAPeerThatGaveUp) {
  AttachRequest abandoned = request(false);
  abandoned.abandoned = [] { return true; };
  const Status status = far_->attach(abandoned).status();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_NE(status.message().find("the peer stopped connecting over shm"), std::string::npos)
      << status.message();
}

TEST_F(ShmFabrics, SayThatAnAddressCannotBeReached) {
  AttachRequest nowhere = request(true);
  nowhere.peer_address = "farwrite-test-nobody";
  EXPECT_EQ(near_->attach(nowhere).status().code(), StatusCode::kUnavailable);
}

TEST_F(ShmFabrics, AreNotDisturbedByStrangers) {
  const core::UniqueFd silent =
      connect_abstract(far_->address(), core::Deadline::after(std::chrono::seconds(5))).value();
  const core::UniqueFd leaving =
      connect_abstract(far_->address(), core::Deadline::after(std::chrono::seconds(5))).value();
  const core::UniqueFd noisy =
      connect_abstract(far_->address(), core::Deadline::after(std::chrono::seconds(5))).value();
  ASSERT_TRUE(
      send_packet(noisy.get(), {"garbage", 7}, {}, core::Deadline::after(kFabricHang), "test")
          .ok());
  ASSERT_NO_FATAL_FAILURE(attach());
}

TEST_F(ShmFabrics, LeaveNoDescriptorBehind) {
  const std::size_t before = descriptors_now();
  ASSERT_NO_FATAL_FAILURE(attach());
  EXPECT_GT(descriptors_now(), before);
  near_link_.reset();
  far_link_.reset();
  EXPECT_EQ(descriptors_now(), before);
  near_.reset();
  far_.reset();
  loop_.reset();
  EXPECT_LT(descriptors_now(), before);
}

}  // namespace
}  // namespace farwrite::fabric::shm
