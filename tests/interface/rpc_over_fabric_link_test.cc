// A link of rpc-over-fabric ends with an error when its peer breaks the rules.
#include <gmock/gmock.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "experiments/tensorflow/link.h"
#include "farwrite/device.h"

namespace farwrite::experiments {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t kRingBytes = 1024;
constexpr std::uint32_t kTaken = std::uint32_t{1} << 31;

Device open_device() {
  DeviceOptions options;
  options.listen = *Endpoint::parse("127.0.0.1:0");
  options.fabrics = {FabricKind::kShm};
  return *Device::open(options);
}

// A link here, and a peer that does as the test says: it has published a ring and knows ours.
class RpcLink : public testing::Test {
 protected:
  void SetUp() override {
    Result<Channel> connected = Status(StatusCode::kInternal, "not yet");
    std::thread connecting([&] { connected = theirs_.connect(ours_.endpoint()); });
    Result<Channel> accepted = ours_.accept();
    connecting.join();
    peer_ = *std::move(connected);
    channel_ = *std::move(accepted);
    peers_ring_ = *peer_.allocate(kRingBytes);
    ASSERT_TRUE(peer_.publish("rpc ring", peers_ring_).ok());
    Result<std::shared_ptr<Link>> link =
        Link::open(channel_, kRingBytes,
                   [this](std::function<void()> work) { later_.push_back(std::move(work)); });
    ASSERT_TRUE(link.ok()) << link.status().to_string();
    link_ = *std::move(link);
    ring_ = *peer_.lookup("rpc ring");
  }

  // Room for some chunks.
  RemoteRegion peers_large_ring() {
    large_ = *peer_.allocate(std::uint64_t{2} << 20);
    EXPECT_TRUE(peer_.publish("large ring", large_).ok());
    return *channel_.lookup("large ring");
  }

  Device ours_ = open_device();
  Device theirs_ = open_device();
  Channel channel_;
  Channel peer_;
  MemoryRegion peers_ring_;
  MemoryRegion large_;
  RemoteRegion ring_;
  std::shared_ptr<Link> link_;
  std::vector<std::function<void()>> later_;  // what the link wants done elsewhere
};

TEST_F(RpcLink, ReadsWhatAnHonestPeerWrites) {
  const std::string text = "what an honest peer writes";
  const ByteView bytes(text.data(), text.size());
  (void)peer_.write_with_notify(bytes, ring_, 0, static_cast<std::uint32_t>(text.size()));
  std::string came;
  ASSERT_TRUE(link_->append(&came, text.size()).ok());
  EXPECT_EQ(came, text);
}

TEST_F(RpcLink, EndsWhenThePeerClaimsMoreThanTheRingHolds) {
  (void)peer_.notify(kRingBytes + 1);
  const Result<ByteView> next = link_->peek(1);
  EXPECT_EQ(next.status().code(), StatusCode::kProtocolError);
  EXPECT_THAT(next.status().message(), HasSubstr("1025 bytes into a ring of 1024"));
}

TEST_F(RpcLink, EndsWhenThePeerGivesBackRoomThatWasNotTaken) {
  (void)peer_.notify(kTaken | 1);
  const Result<ByteView> next = link_->peek(1);
  EXPECT_EQ(next.status().code(), StatusCode::kProtocolError);
  EXPECT_THAT(next.status().message(), HasSubstr("took 1 bytes out, and 0 were in it"));
}

TEST_F(RpcLink, EndsWhenThePeerLeavesInAFrame) {
  (void)peer_.write_with_notify(ByteView("abc", 3), ring_, 0, 3);
  peer_ = Channel();
  ring_ = RemoteRegion();
  (void)theirs_.close();
  std::string came;
  EXPECT_FALSE(link_->append(&came, std::uint64_t{1} << 60).ok());
  EXPECT_EQ(came, "abc") << "memory grows with what came, not with what was announced";
}

TEST_F(RpcLink, LeavesWhatIsLongToAnotherThread) {
  const auto text = std::make_shared<const std::string>(kRingBytes, 'a');
  const Piece piece{ByteView(text->data(), text->size()), text};
  link_->writer().write({piece});
  EXPECT_TRUE(later_.empty()) << "all of it went";
  RemoteRegion large = peers_large_ring();
  std::vector<std::function<void()>> later;
  RingWriter writer(channel_, large, [&] { later.emplace_back([&] { writer.write_rest(); }); });
  writer.write(std::vector<Piece>(large.size() / kRingBytes, piece));
  ASSERT_EQ(later.size(), 1U);
  const auto written = [&] {
    std::uint64_t bytes = 0;
    while (std::optional<Notification> next = *peer_.try_notification()) bytes += next->tag;
    return bytes;
  };
  const std::uint64_t first = written();
  EXPECT_LT(first, large.size() + kRingBytes);
  later.front()();
  EXPECT_EQ(later.size(), 1U) << "nothing is left";
  EXPECT_EQ(first + written(), large.size() + kRingBytes);
}

TEST_F(RpcLink, WaitsForARestUntilItIsHurried) {
  (void)peer_.write_with_notify(ByteView("abc", 3), ring_, 0, 3);
  std::thread hurrying([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    link_->hurry(true);
  });
  std::string came;
  const Status rest = link_->append(&came, 4);
  hurrying.join();
  EXPECT_EQ(rest.code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(rest.message(), HasSubstr("continue or restart the peer"));
}

}  // namespace
}  // namespace farwrite::experiments
