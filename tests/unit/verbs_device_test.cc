// Devices with verbs among their fabrics: when it is left out, and what follows it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <vector>

#include "core/log.h"
#include "core/tls_library.h"
#include "device/device.h"
#include "verbs_double/software_rnic.h"

namespace farwrite {
namespace {

using testing::HasSubstr;
using testing::StartsWith;
using verbs_double::RnicOptions;
using verbs_double::SoftwareRnic;
using verbs_double::WireOptions;

constexpr std::chrono::seconds kPatience{30};

DeviceOptions options(SoftwareRnic& rnic, std::vector<FabricKind> fabrics) {
  DeviceOptions result;
  result.fabrics = std::move(fabrics);
  result.huge_pages = HugePages::kOff;
  result.segment_bytes = std::uint64_t{2} << 20;
  result.verbs.library = &rnic;
  return result;
}

class VerbsDeviceTest : public testing::Test {
 protected:
  VerbsDeviceTest() {
    if (std::getenv("FARWRITE_LOG") == nullptr) core::set_log_level(core::LogLevel::kOff);
  }
  // The connecting side's channel; both ends are kept.
  Channel connect(const DeviceOptions& from, const DeviceOptions& to) {
    from_ = Device::open(from).value();
    to_ = Device::open(to).value();
    auto accepted = std::async(std::launch::async, [&] { return to_.accept(kPatience); });
    auto near = from_.connect(to_.endpoint(), kPatience);
    // A machine that stood still in a short handshake proves nothing.
    for (int again = 0; again < 2 && !near.ok(); ++again) {
      near = from_.connect(to_.endpoint(), kPatience);
    }
    near_ = near.value();
    far_ = accepted.get().value();
    return near_;
  }
  void expect_it_works() {
    ASSERT_TRUE(near_.notify(7).wait(kPatience).ok());
    EXPECT_EQ(far_.wait_notification(kPatience).value().tag, 7U);
  }

  // The doubles outlive the devices.
  SoftwareRnic& make_rnic(const std::vector<RnicOptions>& devices = {RnicOptions{}},
                          const WireOptions& wire = {}) {
    return *rnics_.emplace_back(std::make_unique<SoftwareRnic>(devices, wire, network_));
  }

  const std::shared_ptr<verbs_double::Network> network_ = SoftwareRnic::make_network();
  std::vector<std::unique_ptr<SoftwareRnic>> rnics_;
  Device from_, to_;
  Channel near_, far_;
};

const std::vector<FabricKind> kShmVerbsTcp = {FabricKind::kShm, FabricKind::kVerbs,
                                              FabricKind::kTcp};
const std::vector<FabricKind> kVerbsTcp = {FabricKind::kVerbs, FabricKind::kTcp};

TEST_F(VerbsDeviceTest, OnAMachineWithoutRdmaItIsLeftOut) {
  SoftwareRnic& none = make_rnic({});
  const Channel channel = connect(options(none, kVerbsTcp), options(none, kShmVerbsTcp));
  EXPECT_EQ(channel.peer().fabric, FabricKind::kTcp);
  expect_it_works();
  ASSERT_FALSE(from_.stats().choices.empty());
  EXPECT_THAT(from_.stats().choices[0], HasSubstr("tcp"));
}

TEST_F(VerbsDeviceTest, ForcedItIsAnErrorThatSaysWhatToDo) {
  SoftwareRnic& none = make_rnic({});
  const auto device = Device::open(options(none, {FabricKind::kVerbs}));
  EXPECT_EQ(device.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(device.status().message(), HasSubstr("this host has no RDMA device"));
  EXPECT_THAT(device.status().message(), HasSubstr("leave verbs out of fabrics"));
}

TEST_F(VerbsDeviceTest, WithAnAdapterItComesBeforeTcpAndBehindShm) {
  SoftwareRnic& rnic = make_rnic();
  EXPECT_EQ(connect(options(rnic, kVerbsTcp), options(rnic, kShmVerbsTcp)).peer().fabric,
            FabricKind::kVerbs);
  expect_it_works();
  near_ = far_ = Channel();
  EXPECT_EQ(connect(options(rnic, kShmVerbsTcp), options(rnic, kShmVerbsTcp)).peer().fabric,
            FabricKind::kShm);
  near_ = far_ = Channel();
  from_ = to_ = Device();
  EXPECT_THAT(rnic.leaks(), testing::IsEmpty());
}

TEST_F(VerbsDeviceTest, EncryptedTheNextFabricHasItsTurnAndSaysWhy) {
  if (!core::TlsLibrary::open().ok()) GTEST_SKIP() << "OpenSSL is missing";
  SoftwareRnic& rnic = make_rnic();
  DeviceOptions encrypted = options(rnic, kVerbsTcp);
  encrypted.token = "a token";
  encrypted.encrypt = true;
  const Channel channel = connect(encrypted, encrypted);
  EXPECT_EQ(channel.peer().fabric, FabricKind::kTcp);
  EXPECT_THAT(channel.peer().fabric_reason, HasSubstr("the verbs fabric cannot encrypt"));
  expect_it_works();
}

TEST_F(VerbsDeviceTest, WhenRdmaDoesNotGetThroughTcpHasItsTurnInTime) {
  WireOptions wire;
  wire.connect_timeout = std::chrono::minutes(1);  // as where a firewall drops
  SoftwareRnic& one = make_rnic({RnicOptions{}}, wire);
  SoftwareRnic& other = make_rnic({RnicOptions{}}, wire);
  other.break_link();
  DeviceOptions from = options(one, kVerbsTcp);
  DeviceOptions to = options(other, kVerbsTcp);
  from.handshake_timeout = to.handshake_timeout = std::chrono::seconds(2);
  const Channel channel = connect(from, to);
  EXPECT_EQ(channel.peer().fabric, FabricKind::kTcp);
  EXPECT_THAT(channel.peer().fabric_reason, HasSubstr("UDP port 4791"));
  expect_it_works();
}

TEST_F(VerbsDeviceTest, AnAdapterThatLacksWhatThePeerNeedsLeavesItToTcp) {
  RnicOptions without;
  without.supports_atomics = false;
  SoftwareRnic& one = make_rnic({without});
  SoftwareRnic& other = make_rnic();
  const Channel channel = connect(options(one, kVerbsTcp), options(other, kVerbsTcp));
  EXPECT_EQ(channel.peer().fabric, FabricKind::kTcp);
  EXPECT_THAT(channel.peer().fabric_reason, HasSubstr("relaxed_ordering"));
  expect_it_works();
}

TEST_F(VerbsDeviceTest, AFatalEventOfTheAdapterEndsItsChannelsInWords) {
  SoftwareRnic& rnic = make_rnic();
  (void)connect(options(rnic, kVerbsTcp), options(rnic, kVerbsTcp));
  expect_it_works();
  rnic.raise_device_event(IBV_EVENT_DEVICE_FATAL);
  for (Channel* const end : {&near_, &far_}) {
    const Status status = end->wait_notification(kPatience).status();
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(status.message(), StartsWith("wait for a notification from "));
    EXPECT_THAT(end->notify(1).wait(kPatience).message(), StartsWith("notify to "));
  }
}

}  // namespace
}  // namespace farwrite
