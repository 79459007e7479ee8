// How links of the verbs fabric are made, and what is left when they are not.
#include <atomic>
#include <thread>

#include "unit/verbs_link_fixture.h"

namespace farwrite::fabric::verbs {
namespace {

using testing::HasSubstr;

// What both sides were told.
struct Outcome {
  Result<std::unique_ptr<Link>> connecting = Status();
  Result<std::unique_ptr<Link>> accepting = Status();
};

class VerbsAttachTest : public VerbsPair {
 protected:
  void hosts(const WireOptions& wire = {}) {
    const auto network = SoftwareRnic::make_network();
    rnic_ = std::make_unique<SoftwareRnic>(RnicOptions{}, wire, network);
    rnic_b_ = std::make_unique<SoftwareRnic>(RnicOptions{}, wire, network);
    host_a_ = std::make_unique<Host>(*rnic_);
    host_b_ = std::make_unique<Host>(*rnic_b_);
  }
  AttachRequest request(bool connecting, std::uint32_t lanes = 1) {
    return attach_request(connecting, *host_b_->fabric, lanes);
  }
  // As the handshake does it: the accepting side gives up when the other has failed.
  Outcome attach_both(AttachRequest connecting, AttachRequest accepting) {
    std::atomic<bool> failed{false};
    accepting.abandoned = [&] { return failed.load(); };
    Outcome outcome;
    std::thread other([&] { outcome.accepting = host_b_->fabric->attach(accepting); });
    outcome.connecting = host_a_->fabric->attach(connecting);
    failed = !outcome.connecting.ok();
    other.join();
    return outcome;
  }
  // The objects of both doubles.
  std::vector<std::string> objects() {
    std::vector<std::string> all = rnic_->leaks();
    for (const std::string& one : rnic_b_->leaks()) all.push_back("b: " + one);
    return all;
  }
};

TEST_F(VerbsAttachTest, NobodyListensThere) {
  hosts();
  auto asks = request(true);
  asks.peer_address = "127.0.0.1 9";
  const auto link = host_a_->fabric->attach(asks);
  EXPECT_EQ(link.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(link.status().message(),
              HasSubstr("connect lane 0 to the accepting side over verbs"));
  EXPECT_THAT(link.status().message(), HasSubstr("RDMA_CM_EVENT_REJECTED"));
}

TEST_F(VerbsAttachTest, AnAddressThatIsNoneIsTheProtocolsError) {
  hosts();
  for (const char* const address : {"", "127.0.0.1", "here 18515", "127.0.0.1 x", "::1"}) {
    auto asks = request(true);
    asks.peer_address = address;
    EXPECT_EQ(host_a_->fabric->attach(asks).status().code(), StatusCode::kProtocolError) << address;
  }
  auto asks = request(true);
  asks.peer_address = "::1 7";
  EXPECT_THAT(host_a_->fabric->attach(asks).status().message(),
              HasSubstr("the peer has another kind of address"));
  asks.peer_address = "10.254.254.1 7";
  EXPECT_THAT(host_a_->fabric->attach(asks).status().message(),
              HasSubstr("RDMA_CM_EVENT_ADDR_ERROR"));
}

TEST_F(VerbsAttachTest, APeerThatCannotBeReachedIsNamedWithWhatToDo) {
  hosts();
  rnic_b_->break_link();
  const auto link = host_a_->fabric->attach(request(true));
  EXPECT_THAT(link.status().message(), HasSubstr("RDMA_CM_EVENT_UNREACHABLE"));
  EXPECT_THAT(link.status().message(), HasSubstr("UDP port 4791"));
}

// A firewall that drops answers nothing for a minute: the next fabric needs its share of the time.
TEST_F(VerbsAttachTest, ANetworkThatDropsEverythingLeavesTimeForAnotherFabric) {
  WireOptions wire;
  wire.connect_timeout = std::chrono::minutes(1);
  hosts(wire);
  rnic_b_->break_link();
  auto asks = request(true);
  bool in_time = false;  // a machine that stood still meanwhile proves nothing
  for (int attempt = 0; attempt < 3 && !in_time; ++attempt) {
    asks.deadline = core::Deadline::after(std::chrono::seconds(2));
    const auto link = host_a_->fabric->attach(asks);
    in_time = !asks.deadline.expired();
    EXPECT_EQ(link.status().code(), StatusCode::kUnavailable);
  }
  EXPECT_TRUE(in_time);
}

TEST_F(VerbsAttachTest, WaitsNoLongerThanItsDeadlineOrItsPeer) {
  hosts();
  auto waits = request(false);
  waits.deadline = core::Deadline::after(std::chrono::milliseconds(30));
  EXPECT_THAT(host_b_->fabric->attach(waits).status().message(),
              HasSubstr("the peer did not connect by rdma_cm in time"));
  waits = request(false);
  waits.abandoned = [] { return true; };
  EXPECT_THAT(host_b_->fabric->attach(waits).status().message(),
              HasSubstr("the peer stopped connecting over verbs"));
  // Nothing takes the connection.
  auto asks = request(true);
  asks.deadline = core::Deadline::after(std::chrono::milliseconds(30));
  EXPECT_THAT(host_a_->fabric->attach(asks).status().message(),
              HasSubstr("rdma_cm did not answer in time"));
}

TEST_F(VerbsAttachTest, ItCannotEncryptAndSaysSo) {
  hosts();
  for (const bool connecting : {true, false}) {
    auto asks = request(connecting);
    asks.encrypt = true;
    const auto link = (connecting ? host_a_ : host_b_)->fabric->attach(asks);
    EXPECT_EQ(link.status().code(), StatusCode::kUnavailable);
    EXPECT_THAT(link.status().message(), HasSubstr("the verbs fabric cannot encrypt"));
  }
}

TEST_F(VerbsAttachTest, AnotherSecretIsAnotherConnection) {
  hosts();
  auto accepting = request(false);
  auto connecting = request(true);
  connecting.secret.fill(std::byte{9});
  accepting.deadline = core::Deadline::after(std::chrono::milliseconds(50));
  connecting.deadline = accepting.deadline;
  const Outcome outcome = attach_both(connecting, accepting);
  EXPECT_FALSE(outcome.connecting.ok());
  EXPECT_FALSE(outcome.accepting.ok());
}

// Every call of either side's adapter fails once, on its way to a link of three lanes.
TEST_F(VerbsAttachTest, WhateverFailsOnTheWayNothingIsLeftAndNobodyHangs) {
  hosts();
  rnic_->refuse(Call::kCreateCq, ENOMEM);
  EXPECT_FALSE(attach_both(request(true), request(false)).connecting.ok());
  (void)attach_both(request(true), request(false));  // makes completion queues, which stay
  const std::vector<std::string> before = objects();
  constexpr std::array kCalls = {Call::kCreateEventChannel,
                                 Call::kCreateId,
                                 Call::kResolveAddr,
                                 Call::kResolveRoute,
                                 Call::kRegMr,
                                 Call::kCreateQp,
                                 Call::kConnect,
                                 Call::kAccept,
                                 Call::kPostRecv,
                                 Call::kPostSend,
                                 Call::kReqNotifyCq};
  for (SoftwareRnic* const rnic : {rnic_.get(), rnic_b_.get()}) {
    for (const Call call : kCalls) {
      // Before it has looked for its peer, whose connection then waits for something else to take
      // it.
      if (rnic == rnic_b_.get() && call == Call::kCreateEventChannel) continue;
      for (int after = 0; after < 8; ++after) {
        SCOPED_TRACE(testing::Message()
                     << (rnic == rnic_.get() ? "connecting" : "accepting") << ", call "
                     << static_cast<int>(call) << " number " << after);
        rnic->refuse(call, ENOMEM, 1, after);
        auto connecting = request(true, 3);
        auto accepting = request(false, 3);
        connecting.deadline = accepting.deadline = core::Deadline::after(std::chrono::seconds(8));
        {
          const Outcome outcome = attach_both(connecting, accepting);
          for (const auto* one : {&outcome.connecting, &outcome.accepting}) {
            EXPECT_TRUE(one->ok() || !one->status().message().empty());
          }
          EXPECT_FALSE(connecting.deadline.expired()) << "one side did not hear of the other's end";
        }
        rnic->allow(call);
        ASSERT_EQ(objects(), before);
      }
    }
  }
  const Outcome outcome = attach_both(request(true, 3), request(false, 3));
  EXPECT_TRUE(outcome.connecting.ok() && outcome.accepting.ok());
}

TEST_F(VerbsAttachTest, ManyLinksAtOnceFindTheirOwnPeers) {
  hosts();
  constexpr std::uint8_t kLinks = 12;
  std::vector<std::future<Result<std::unique_ptr<Link>>>> ends;
  for (std::uint8_t secret = 1; secret <= kLinks; ++secret) {
    for (const bool connecting : {false, true}) {
      ends.push_back(std::async(std::launch::async, [&, secret, connecting] {
        auto asks = request(connecting, secret % 3 + 1);
        asks.secret.fill(static_cast<std::byte>(secret));
        return (connecting ? host_a_ : host_b_)->fabric->attach(asks);
      }));
    }
  }
  std::vector<std::unique_ptr<Link>> links;
  for (auto& end : ends) {
    auto link = end.get();
    ASSERT_TRUE(link.ok()) << link.status().message();
    links.push_back(*std::move(link));
  }
  Recorder recorder;
  for (std::size_t i = 0; i < links.size(); i += 2) {
    Operation operation;
    operation.kind = OperationKind::kNotify;
    operation.tag = static_cast<std::uint32_t>(i);
    (void)links[i + 1]->lane(0).post(operation);
    const std::size_t had = recorder.taken.size();
    while (recorder.taken.size() == had) links[i]->lane(0).poll(recorder);
    EXPECT_EQ(recorder.taken.back().tag, i);
  }
}

}  // namespace
}  // namespace farwrite::fabric::verbs
