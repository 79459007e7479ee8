// Lent memory and peers that die or stop.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <vector>

#include "c_handles.h"
#include "farwrite/c_api.h"
#include "fault/child_process.h"
#include "fault/lending.h"
#include "fault/role.h"

namespace farwrite::fault {
namespace {

constexpr std::uint64_t kPatienceNs = std::chrono::nanoseconds(kPatience).count();

// Takes as many lends as the second argument says and holds them, until "drop".
int borrower(const Arguments& arguments) {
  Connected peer = connect_to(arguments.at(0));
  say("connected");
  std::vector<Alias> held;
  for (int left = std::stoi(arguments.at(1)); left > 0; --left) {
    auto notification = peer.channel.wait_notification(kPatience);
    FARWRITE_REQUIRE_OK(notification.status());
    FARWRITE_REQUIRE(notification->lent.valid());
    auto alias = peer.channel.alias(notification->lent, 0, notification->lent.size());
    FARWRITE_REQUIRE_OK(alias.status());
    FARWRITE_REQUIRE(alias->data()[0] == std::byte{'b'});
    held.push_back(*std::move(alias));
  }
  say("holding");
  while (const auto line = hear()) {
    if (*line == "drop") held.clear();
  }
  return 0;
}
const RoleRegistration kBorrower("borrower", borrower);

// Lends three pages of its own.
int lender(const Arguments& arguments) {
  Connected peer = connect_to(arguments.at(0));
  auto region = peer.device.allocate(kLentBytes).value();
  std::memset(region.data(), 'l', kLentBytes);
  for (int i = 0; i < 3; ++i) {
    FARWRITE_REQUIRE_OK(peer.channel.lend({}, {region.data(), kLentBytes}, [] {}).wait(kPatience));
  }
  say("lent");
  hear_the_end();
  return 0;
}
const RoleRegistration kLender("lender", lender);

class Lent : public Lending {};

TEST_F(Lent, ComesBackOnceWhenTheBorrowerIsKilled) {
  ChildProcess child("borrower", {endpoint(), "2"});
  Channel channel = accept();
  lend(channel, 3);  // two are held, one lies in the ring
  child.wait_for("holding");
  std::atomic<int> ends{0};
  std::atomic<bool> good{true};
  ASSERT_TRUE(channel
                  .on_end([&](bool good_order, const Status& reason) {
                    good = good_order;
                    EXPECT_EQ(reason.code(), StatusCode::kPeerDead);
                    ++ends;
                  })
                  .ok());
  EXPECT_EQ(returned_, 0);
  child.kill();
  EXPECT_TRUE(eventually([&] { return returned_ == 3 && ends == 1; }));
  EXPECT_FALSE(good);
  expect_dead(channel);
  Status after =
      channel.lend({}, {region_.data(), kLentBytes}, [this] { ++returned_; }).wait(kPatience);
  EXPECT_EQ(after.code(), StatusCode::kPeerDead);
  EXPECT_TRUE(channel.close(kPatience).ok());
  EXPECT_EQ(returned_, 3);
  EXPECT_EQ(ends, 1);
}

TEST_F(Lent, StaysOutWhileTheBorrowerIsSilent) {
  ChildProcess child("borrower", {endpoint(), "2"});
  Channel channel = accept();
  lend(channel, 2);
  child.wait_for("holding");
  std::atomic<int> ends{0};
  ASSERT_TRUE(channel.on_end([&](bool, const Status&) { ++ends; }).ok());
  child.stop();
  EXPECT_TRUE(eventually([&] { return channel.peer_state() == PeerState::kSilent; }));
  std::this_thread::sleep_for(2 * kDetection);
  EXPECT_EQ(returned_, 0);
  EXPECT_EQ(ends, 0);
  child.resume();
  child.tell("drop");
  EXPECT_TRUE(eventually([&] { return returned_ == 2; }));
  EXPECT_TRUE(eventually([&] { return channel.peer_state() == PeerState::kAlive; }));
  EXPECT_EQ(child.finish(), 0);
  EXPECT_TRUE(eventually([&] { return ends == 1; }));
}

TEST_F(Lent, ByAPeerThatIsKilledCanBeTakenAndSeenAfterwards) {
  ChildProcess child("lender", {endpoint()});
  Channel channel = accept();
  child.wait_for("lent");
  auto first = channel.wait_notification(kPatience).value();
  Alias seen = channel.alias(first.lent, 0, kLentBytes).value();
  child.kill();
  expect_dead(channel);
  auto late = channel.wait_notification(kPatience);
  ASSERT_TRUE(late.ok()) << late.status().to_string();
  auto alias = channel.alias(late->lent, 0, kLentBytes);
  ASSERT_TRUE(alias.ok()) << alias.status().to_string();
  EXPECT_EQ(std::count(alias->data(), alias->data() + kLentBytes, std::byte{'l'}), kLentBytes);
  EXPECT_EQ(std::count(seen.data(), seen.data() + kLentBytes, std::byte{'l'}), kLentBytes);
  EXPECT_TRUE(channel.close(kPatience).ok());
  EXPECT_EQ(seen.data()[0], std::byte{'l'});
}

TEST_F(Lent, TheCAbiHearsOfADeathOnce) {
  struct Seen {
    std::atomic<int> returned{0}, ends{0}, good_order{-1};
  } seen;
  fw_device_options options = {};
  options.struct_size = sizeof(options);
  options.segment_bytes = 2 << 20;
  fw_device* device = nullptr;
  ASSERT_EQ(fw_device_open(&options, &device), nullptr);
  fw_identity identity = {};
  identity.struct_size = sizeof(identity);
  fw_device_identity(device, &identity);
  ChildProcess child("borrower", {identity.endpoint, "1"});
  fw_channel* channel = nullptr;
  ASSERT_EQ(fw_device_accept(device, kPatienceNs, &channel), nullptr);
  ASSERT_EQ(fw_channel_serve(
                channel, [](void*, const fw_notification*) {},
                [](void* context, int good_order, const fw_status* reason) {
                  auto& saw = *static_cast<Seen*>(context);
                  EXPECT_NE(std::string(fw_status_message(reason)).find("process is gone"),
                            std::string::npos);
                  saw.good_order = good_order;
                  ++saw.ends;
                },
                &seen),
            nullptr);
  void* const memory = fw_device_allocate(device, kLentBytes);
  std::memset(memory, 'b', kLentBytes);
  ASSERT_EQ(
      fw_channel_lend(
          channel, "m", 1, memory, kLentBytes,
          [](void* context) { ++static_cast<Seen*>(context)->returned; }, &seen, 0, 0, nullptr),
      nullptr);
  child.wait_for("holding");
  EXPECT_EQ(seen.returned, 0);
  child.kill();
  EXPECT_TRUE(eventually([&] { return seen.returned == 1 && seen.ends == 1; }));
  EXPECT_EQ(seen.good_order, 0);
  fw_device_deallocate(device, memory);
  EXPECT_EQ(finish(channel, kPatienceNs), nullptr);
  EXPECT_EQ(finish(device, kPatienceNs), nullptr);
  EXPECT_EQ(seen.returned, 1);
  EXPECT_EQ(seen.ends, 1);
}

}  // namespace
}  // namespace farwrite::fault
