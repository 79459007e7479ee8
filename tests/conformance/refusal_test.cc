// One side breaks the protocol: the channel ends on both, with the reason, and nothing waits.
#include <future>
#include <string>

#include "conformance/conformance.h"
#include "wire_tap.h"

namespace farwrite {
namespace {

// The control connection passes through a tap, which may change what the near side says.
class Refusal : public Conformance {
 protected:
  void SetUp() override {
    Conformance::SetUp();
    near_device_ = open();
    far_device_ = open();
    const Endpoint door = tap_.relay({"127.0.0.1", 0}, far_device_.endpoint());
    auto near = near_device_.connect(door, kHang);
    ASSERT_OK(near);
    auto far = far_device_.accept(kHang);
    ASSERT_OK(far);
    near_ = *std::move(near);
    far_ = *std::move(far);
  }
  // What the near side looks up by this name becomes a request that no decoder takes.
  void spoil_lookups_of(const std::string& name) {
    tap_.set_filter([name](bool forth, std::string& bytes) {
      const std::size_t at = forth ? bytes.find(name) : std::string::npos;
      if (at != std::string::npos && at >= 4) bytes.replace(at - 4, 4, "\xff\xff\xff\x7f");
    });
  }

  WireTap tap_;
  Device near_device_, far_device_;
  Channel near_, far_;
};

TEST_P(Refusal, OfAMalformedRequestEndsTheChannelOnBothSidesWithTheReason) {
  auto landing = far_.allocate(64);
  ASSERT_OK(landing);
  ASSERT_OK(far_.publish("landing", *landing));
  auto target = near_.lookup("landing", kHang);
  ASSERT_OK(target);
  auto waiting = std::async(std::launch::async, [&] { return near_.wait_notification(kHang); });

  spoil_lookups_of("poison");
  const Status refused = near_.lookup("poison", kHang).status();
  EXPECT_CODE(kProtocolError, refused);
  EXPECT_NE(refused.message().find("the peer ended it"), std::string::npos) << refused.to_string();
  EXPECT_NE(refused.message().find("length"), std::string::npos) << refused.to_string();
  const Status woken = waiting.get().status();
  EXPECT_CODE(kProtocolError, woken);

  const std::vector<std::byte> bytes = make_bytes(64, 1);
  for (Completion operation : {near_.write({bytes.data(), bytes.size()}, *target), near_.notify(1),
                               near_.flush(), far_.notify(2), far_.flush()}) {
    EXPECT_CODE(kProtocolError, operation.wait(kHang));
  }
  EXPECT_EQ(near_.peer_state(), PeerState::kClosed);
  EXPECT_EQ(far_.peer_state(), PeerState::kClosed);
  target = RemoteRegion();
  EXPECT_OK(near_.close(kHang));
  EXPECT_OK(far_.close(kHang));
}

TEST_P(Refusal, GivesBackWhatWasLeased) {
  auto shown = far_device_.allocate(64);
  ASSERT_OK(shown);
  ASSERT_OK(far_device_.publish("shown", *shown));
  auto source = near_.lookup("shown", kHang);
  ASSERT_OK(source);
  EXPECT_EQ(far_.stats().leases_granted, 1U);
  spoil_lookups_of("poison");
  EXPECT_CODE(kProtocolError, near_.lookup("poison", kHang).status());
  *source = RemoteRegion();
  EXPECT_TRUE(eventually([&] { return far_.stats().leases_released == 1; }));
}

FARWRITE_EVERY_FABRIC_INSIDE(Refusal);

}  // namespace
}  // namespace farwrite
