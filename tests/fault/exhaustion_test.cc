// Something runs out: an error that says what and what to do, and everything goes on afterwards.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <vector>

#include "core/unique_fd.h"
#include "fault/child_process.h"
#include "fault/fixture.h"
#include "fault/named_fabric.h"
#include "fault/role.h"

namespace farwrite::fault {
namespace {

constexpr std::uint64_t kMegabyte = std::uint64_t{1} << 20;

class Exhaustion : public FaultTest {
 protected:
  // Allocates megabytes until it is refused, and then again once there is room.
  template <typename Allocate>
  static void expect_limit(Allocate allocate, std::size_t most, const std::string& option) {
    std::vector<MemoryRegion> regions;
    Status refused;
    while (regions.size() <= most) {
      auto region = allocate(kMegabyte);
      if (!region.ok()) {
        refused = region.status();
        break;
      }
      regions.push_back(*std::move(region));
    }
    expect_error(refused, StatusCode::kResourceExhausted, {option});
    EXPECT_GE(regions.size(), most / 2);
    regions.clear();
    EXPECT_TRUE(allocate(kMegabyte).ok());
  }
};

TEST_F(Exhaustion, OfSendMemoryNamesSendLimit) {
  DeviceOptions options = quick_options();
  options.send_limit = 8 * kMegabyte;
  Device device = open_device(options);
  expect_limit([&](std::uint64_t bytes) { return device.allocate(bytes); }, 8, "send_limit");
  EXPECT_GT(device.stats().send.refusals, 0u);
}

TEST_F(Exhaustion, OfReceiveMemoryNamesTheLimitAndSparesOtherPeers) {
  DeviceOptions options = quick_options();
  options.receive_limit_per_peer = 8 * kMegabyte;
  options.receive_limit = 12 * kMegabyte;
  Device device = open_device(options);
  Device one = open_device();
  Device two = open_device();
  Channel from_one = one.connect(device.endpoint(), kPatience).value();
  Channel to_one = device.accept(kPatience).value();
  Channel from_two = two.connect(device.endpoint(), kPatience).value();
  Channel to_two = device.accept(kPatience).value();
  expect_limit([&](std::uint64_t bytes) { return to_one.allocate(bytes); }, 8,
               "receive_limit_per_peer");
  std::vector<MemoryRegion> full;
  for (auto region = to_one.allocate(kMegabyte); region.ok(); region = to_one.allocate(kMegabyte)) {
    full.push_back(*std::move(region));
  }
  // One peer's share is full; another gets what is left for all of them.
  expect_limit([&](std::uint64_t bytes) { return to_two.allocate(bytes); }, 12 - full.size(),
               "receive_limit");
}

TEST_F(Exhaustion, OfLeasesNamesSendLimitPerPeerAndFreesThemAgain) {
  DeviceOptions options = quick_options();
  options.send_limit_per_peer = 4 * kMegabyte;
  Device owner = open_device(options);
  Device peer = open_device();
  Channel channel = peer.connect(owner.endpoint(), kPatience).value();
  auto region = owner.allocate(kMegabyte).value();
  ASSERT_TRUE(owner.publish("export", region).ok());
  std::vector<RemoteRegion> held;
  for (int i = 0; i < 4; ++i) held.push_back(channel.lookup("export").value());
  expect_error(channel.lookup("export").status(), StatusCode::kResourceExhausted,
               {peer.endpoint().to_string(), "send_limit_per_peer", "drop"});
  held.pop_back();
  Status again;
  EXPECT_TRUE(eventually([&] {
    auto more = channel.lookup("export");
    again = more.status();
    return more.ok();
  })) << again.to_string();
}

TEST_F(Exhaustion, OfTheBacklogFailsOneNotificationAndNotTheChannel) {
  Device device = open_device();
  ChildProcess child("deaf", {device.endpoint().to_string()});
  Channel channel = device.accept(kPatience).value();
  child.wait_for("connected");
  Status refused;
  std::uint32_t sent = 0;
  while (refused.ok()) {
    const Completion completion = channel.notify(sent);
    if (completion.done()) refused = completion.wait();
    if (refused.ok()) ++sent;
  }
  expect_error(refused, StatusCode::kResourceExhausted,
               {channel.peer().endpoint.to_string(), "shm", "take its notifications"});
  child.tell("take " + std::to_string(sent));
  child.wait_for("took all");
  EXPECT_TRUE(device.close().ok());
}

// Sets the limit of open files so that `spare` more can be opened.
void leave_descriptors(std::size_t spare) {
  std::size_t highest = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    highest = std::max<std::size_t>(highest, std::stoul(entry.path().filename().string()));
  }
  // The folder's own descriptor was the lowest free one; numbers up to `highest` may have gaps,
  // which are filled first.
  std::vector<int> fillers;
  for (int fd = ::dup(0); fd >= 0 && static_cast<std::size_t>(fd) <= highest; fd = ::dup(0)) {
    fillers.push_back(fd);
  }
  const rlimit limit{highest + 1 + spare, highest + 1 + spare};
  FARWRITE_REQUIRE(::setrlimit(RLIMIT_NOFILE, &limit) == 0);
  ::close(static_cast<int>(highest + 1));  // the last filler, past the highest
}

// Something, somewhere, could not be opened, and the message says what limit to raise, and no more.
void require_out_of_descriptors(const Status& status) {
  const bool has_remedy = status.message().find("open files") != std::string::npos ||
                          status.message().find("ulimit -n") != std::string::npos;
  const bool blames_network = status.message().find("firewall") != std::string::npos;
  if (!has_remedy || blames_network) give_up(__FILE__, __LINE__, status.to_string());
}

// Opens a device with N descriptors to spare: an error with the remedy, or a device that works.
int open_starved(const Arguments& arguments) {
  leave_descriptors(std::stoul(arguments.at(0)));
  auto device = Device::open(quick_options());
  if (!device.ok()) {
    require_out_of_descriptors(device.status());
    say("refused");
    return 0;
  }
  FARWRITE_REQUIRE_OK(device->close(kPatience));
  *device = Device();
  say("opened");
  return 0;
}
const RoleRegistration kOpenStarved("open starved", open_starved);

TEST_F(Exhaustion, OfDescriptorsFailsOpeningADeviceWithARemedyOrNotAtAll) {
  bool opened = false;
  for (int spare = 0; spare < 20 && !opened; ++spare) {
    ChildProcess child("open starved", {std::to_string(spare)});
    const int status = child.finish();
    if (status == -1) {
      ADD_FAILURE() << "with " << spare << " descriptors to spare the device never closed";
      continue;
    }
    const std::string word = child.last_line();
    EXPECT_EQ(status, 0) << "with " << spare << " descriptors to spare: " << word;
    opened = word == "opened";
  }
  EXPECT_TRUE(opened);
}

// While it lives, this process can open `spare` descriptors and no more.
class FewDescriptors {
 public:
  explicit FewDescriptors(std::size_t spare) {
    rlimit before{};
    FARWRITE_REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
    const rlimit narrow{64, before.rlim_max};
    FARWRITE_REQUIRE(::setrlimit(RLIMIT_NOFILE, &narrow) == 0);
    for (int fd = ::dup(0); fd >= 0; fd = ::dup(0)) fillers_.emplace_back(fd);
    FARWRITE_REQUIRE(fillers_.size() >= spare);
    fillers_.resize(fillers_.size() - spare);
  }

 private:
  std::vector<core::UniqueFd> fillers_;
};

// Connects with N descriptors to spare; then, with enough again, for good.
int connect_starved(const Arguments& arguments) {
  const Endpoint target = Endpoint::parse(arguments.at(0)).value();
  DeviceOptions options = quick_options();
  options.handshake_timeout = std::chrono::seconds(2);
  auto device = Device::open(options);
  FARWRITE_REQUIRE_OK(device.status());
  {
    const FewDescriptors few(std::stoul(arguments.at(1)));
    auto starved = device->connect(target, std::chrono::seconds(3));
    if (!starved.ok()) require_out_of_descriptors(starved.status());
    say(starved.ok() ? "connected" : "refused");
  }
  auto channel = device->connect(target, kPatience);
  FARWRITE_REQUIRE_OK(channel.status());
  FARWRITE_REQUIRE_OK(channel->notify(6).wait(kPatience));
  say("usable");
  hear_the_end();
  return 0;
}
const RoleRegistration kConnectStarved("connect starved", connect_starved);

TEST_F(Exhaustion, OfDescriptorsFailsConnectingWithARemedyAndOnlyForNow) {
  DeviceOptions options = quick_options();
  options.handshake_timeout = std::chrono::seconds(2);
  Device device = open_device(options);
  for (const char* spare : {"0", "2", "4", "6"}) {
    ChildProcess child("connect starved", {device.endpoint().to_string(), spare});
    child.wait_for("usable");
    EXPECT_EQ(child.finish(), 0) << child.said();
  }
  EXPECT_TRUE(device.close().ok());
}

// Accepts with as many descriptors to spare as it is told, over the named fabric, again and again.
// Then, with enough of them, takes the channel that the test says it has, and no other.
int accept_starved(const Arguments& arguments) {
  auto device = Device::open(options_of(arguments.at(0)));
  FARWRITE_REQUIRE_OK(device.status());
  say("at " + device->endpoint().to_string());
  while (const auto spare = hear()) {
    std::optional<FewDescriptors> few(std::stoul(*spare));
    say("starved");
    const auto outcome = hear();
    few.reset();
    auto channel = device->accept(outcome == "connected" ? kPatience : std::chrono::seconds(0));
    FARWRITE_REQUIRE(channel.ok() == (outcome == "connected"));
    if (channel.ok()) FARWRITE_REQUIRE_OK(channel->wait_notification(kPatience).status());
    say("agreed");
  }
  return 0;
}
const RoleRegistration kAcceptStarved("accept starved", accept_starved);

class StarvedPeer : public Exhaustion, public ::testing::WithParamInterface<NamedFabric> {};

TEST_P(StarvedPeer, HasTheChannelThatConnectReturnsOrConnectFailsAndKeepsNothing) {
  Device device = open_device(options_of(GetParam().name));
  ChildProcess child("accept starved", {GetParam().name});
  const Endpoint peer = Endpoint::parse(child.wait_for("at")).value();
  const Holdings before = Holdings::now();
  bool connected = false;
  for (int spare = 0; spare <= 40 && !connected; ++spare) {
    child.tell(std::to_string(spare));
    child.wait_for("starved");
    {
      auto channel = device.connect(peer, kPatience);
      connected = channel.ok();
      child.tell(connected ? "connected" : "refused");
      if (connected) {
        EXPECT_TRUE(channel->notify(1).wait(kPatience).ok());
      } else {
        const std::string& message = channel.status().message();
        EXPECT_TRUE(message.find("ulimit -n") != std::string::npos ||
                    message.find("open files") != std::string::npos ||
                    message.find("the peer's log") != std::string::npos)
            << "with " << spare << " to spare: " << channel.status().to_string();
      }
      child.wait_for("agreed");
    }
    // The peer lives on.
    EXPECT_TRUE(eventually([&] { return Holdings::now().within(before); }))
        << "with " << spare
        << " to spare something stays: " << ::testing::PrintToString(Holdings::now())
        << "\nbefore: " << ::testing::PrintToString(before);
  }
  EXPECT_TRUE(connected);
  EXPECT_EQ(child.finish(), 0) << child.said();
}
INSTANTIATE_TEST_SUITE_P(Fabrics, StarvedPeer, ::testing::ValuesIn(kNamedFabrics),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace farwrite::fault
