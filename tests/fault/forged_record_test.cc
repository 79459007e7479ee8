// Peers that forge channel records: what they say of leases is checked, or ignored.
#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "core/event_loop.h"
#include "core/tcp_socket.h"
#include "device/channel_records.h"
#include "device/handshake.h"
#include "fabric/shm/shm_fabric.h"
#include "fault/child_process.h"
#include "fault/hostile_identity.h"
#include "fault/lending.h"
#include "fault/role.h"
#include "plain_sockets.h"

namespace farwrite::fault {
namespace {

struct NoObserver final : fabric::LinkObserver {
  void on_peer_dead(const Status&) override {}
  void on_link_error(const Status&) override {}
};

// A real link, whose records say what the second argument names.
int forger(const Arguments& arguments) {
  const Endpoint target = Endpoint::parse(arguments.at(0)).value();
  const std::string& what = arguments.at(1);
  auto loop = *core::EventLoop::start("hostile");
  auto fabric = *fabric::shm::ShmFabric::create(*loop);
  memory::SegmentOptions page;
  page.bytes = kLentBytes;
  page.huge_pages = memory::HugePages::kOff;
  const auto segment = memory::Segment::create(page).value();
  device::LocalIdentity self = hostile_identity(*fabric);
  const core::Deadline deadline = core::Deadline::after(kPatience);
  const core::UniqueFd socket = *core::connect_tcp(target, deadline);
  NoObserver observer;
  auto introduction =
      device::introduce_connecting(socket.get(), self, target.to_string(), deadline, &observer);
  FARWRITE_REQUIRE_OK(introduction.status());

  fabric::Operation operation;
  operation.kind = fabric::OperationKind::kRecord;
  std::vector<std::byte> record;
  device::LendRecord lend;
  lend.lease = 1;
  lend.key = fabric->register_segment(segment).value();
  lend.length = kLentBytes;
  device::ReturnRecord returns;
  returns.leases = {0, 1, 2, 3, 77, ~std::uint64_t{0}};
  if (what == "no such segment") lend.key += std::uint64_t{1} << 40;
  if (what == "past the end") lend.offset = 1;
  if (what == "overflow") lend.offset = ~std::uint64_t{0} - 100;
  if (what == "no lease") lend.lease = 0;
  const bool in_return_lane = what == "made-up returns" || what == "empty return" ||
                              what == "notification in the return lane";
  if (what == "empty return") returns.leases.clear();
  if (in_return_lane || what == "return among notifications") {
    returns.write(record);
  } else {
    lend.write({}, record);
  }
  if (what == "truncated lend") record.resize(39);
  if (what == "notification in the return lane") {
    operation.kind = fabric::OperationKind::kNotify;
    record.clear();
  }
  operation.source = {record.data(), record.size()};
  fabric::Lane& lane = introduction->link->lane(in_return_lane ? 1 : 0);
  FARWRITE_REQUIRE_OK(lane.post(operation).wait(kPatience));
  // Its own channel must be judged by this record alone.
  if (what == "twice") FARWRITE_REQUIRE_OK(lane.post(operation).wait(kPatience));
  say("sent");
  hear_the_end();
  return 0;
}
const RoleRegistration kForger("forger", forger);

class Forger : public Lending {};

TEST_F(Forger, OfAPlaceIsAnErrorForWhoLooksAndNothingElse) {
  for (const char* what : {"no such segment", "past the end", "overflow"}) {
    ChildProcess child("forger", {endpoint(), what});
    Channel channel = accept();
    child.wait_for("sent");
    auto notification = channel.wait_notification(kPatience);
    ASSERT_TRUE(notification.ok()) << what;
    ASSERT_TRUE(notification->lent.valid()) << what;
    auto alias = channel.alias(notification->lent, 0, 1);
    EXPECT_EQ(alias.status().code(), what == std::string("no such segment")
                                         ? StatusCode::kNotFound
                                         : StatusCode::kOutOfRange)
        << what << ": " << alias.status().to_string();
    std::byte copy[1];
    EXPECT_FALSE(channel.read({copy, 1}, notification->lent).wait(kPatience).ok()) << what;
    EXPECT_LT(channel.peer_state(), PeerState::kClosed) << what;
  }
}

TEST_F(Forger, OfAMalformedRecordLosesItsChannel) {
  for (const char* what : {"no lease", "truncated lend", "return among notifications",
                           "empty return", "notification in the return lane"}) {
    ChildProcess child("forger", {endpoint(), what});
    Channel channel = accept();
    child.wait_for("sent");
    // Something has to look into the lane.
    EXPECT_EQ(channel.wait_notification(kPatience).status().code(), StatusCode::kProtocolError)
        << what;
    EXPECT_EQ(channel.peer_state(), PeerState::kClosed) << what;
  }
}

TEST_F(Forger, GainsNothingByMadeUpAndDoubledRecords) {
  ChildProcess child("forger", {endpoint(), "made-up returns"});
  Channel channel = accept();
  child.wait_for("sent");
  lend(channel, 1);  // its lease is 1, which may be returned before or after: once
  (void)channel.close(kPatience);
  child.kill();
  EXPECT_TRUE(eventually([&] { return returned_ == 1; }));

  ChildProcess doubler("forger", {endpoint(), "twice"});
  channel = accept();
  doubler.wait_for("sent");
  for (int i = 0; i < 2; ++i) {
    auto notification = channel.wait_notification(kPatience);
    ASSERT_TRUE(notification.ok());
    EXPECT_TRUE(channel.alias(notification->lent, 0, kLentBytes).ok());
  }
  EXPECT_TRUE(eventually([&] { return channel.stats().leases_held == 0; }));
}

}  // namespace
}  // namespace farwrite::fault
