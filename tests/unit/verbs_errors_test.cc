// What a verbs link says and does when adapters, peers and networks fail.
#include <thread>

#include "unit/verbs_link_fixture.h"

namespace farwrite::fabric::verbs {
namespace {

using testing::HasSubstr;

class VerbsErrorsTest : public VerbsPair {
 protected:
  // The queue pair of a lane of a_: sides make theirs in the order of the lanes, b_ first or last.
  ibv_qp* pair_of(std::uint32_t lane) {
    for (ibv_qp* const pair : rnic_->pairs()) {
      if (pair->pd != own_domain()) continue;
      if (lane-- == 0) return pair;
    }
    return nullptr;
  }
  // With a double of its own, a_ has the only domain there is.
  ibv_pd* own_domain() { return rnic_->pairs().front()->pd; }
};

class VerbsStatusesTest : public VerbsErrorsTest, public testing::WithParamInterface<int> {};

TEST_P(VerbsStatusesTest, EndTheOperationInWordsAndTheChannel) {
  const auto status = static_cast<ibv_wc_status>(GetParam());
  make_two({}, {});
  rnic_->fail_next(status, 0x7b);
  std::vector<std::byte> destination(100'000);
  const Completion read = a_.read({destination.data(), destination.size()});
  const Completion behind = a_.read({destination.data(), 100});
  const Status outcome = this->outcome(read);
  const std::string text = rnic_->wc_status_text(status);
  EXPECT_THAT(outcome.message(), HasSubstr("read from the accepting side over verbs: "));
  EXPECT_THAT(outcome.message(), HasSubstr("(" + text + ", status " + std::to_string(status) +
                                           ", vendor error 0x7b, on soft0, lane 0); "));
  EXPECT_EQ(this->outcome(behind).message(), outcome.message()) << "the first error is the cause";
  ASSERT_TRUE(settled(read) && settled(behind));
  ASSERT_TRUE(until([&] { return a_.recorder.deaths + a_.recorder.errors > 0; }));
  ASSERT_TRUE(until([&] { return b_.recorder.deaths > 0; })) << "the other side hears of it, too";
  for (int i = 0; i < 20; ++i) a_.poll(), b_.poll();
  EXPECT_EQ(a_.recorder.deaths, means_peer_gone(status) ? 1 : 0);
  EXPECT_EQ(a_.recorder.errors, means_peer_gone(status) ? 0 : 1);
  EXPECT_EQ((a_.recorder.deaths == 1 ? a_.recorder.dead : a_.recorder.broken).message(),
            outcome.message());
  EXPECT_EQ(b_.recorder.deaths, 1);
  EXPECT_EQ(a_.notify(1).wait().message(), outcome.message()) << "and so do later ones";
}

INSTANTIATE_TEST_SUITE_P(Every, VerbsStatusesTest,
                         testing::Range(IBV_WC_SUCCESS + 1, IBV_WC_TM_RNDV_INCOMPLETE + 1));

TEST_F(VerbsErrorsTest, EveryKindOfOperationIsNamed) {
  const auto bytes = pattern(50'000);
  std::vector<std::byte> destination(100);
  const std::vector<std::pair<std::string, std::function<Completion()>>> kinds = {
      {"write", [&] { return a_.write(view_of(bytes)); }},
      {"read", [&] { return a_.read({destination.data(), destination.size()}); }},
      {"flush",
       [&] {
         (void)a_.write({bytes.data(), 8});
         return a_.flush();
       }},
  };
  for (const auto& [name, post] : kinds) {
    make();
    rnic_->fail_next(IBV_WC_RETRY_EXC_ERR, 0x81, nullptr, name == "flush" ? 1 : 0);
    EXPECT_THAT(outcome(post()).message(),
                HasSubstr(name + (name == "read" ? " from" : " to") + " the accepting side"));
    close();
    a_ = {};
    b_ = {};
  }
}

TEST_F(VerbsErrorsTest, ARemoteAccessErrorPoisonsItsChannelOnly) {
  make();
  Side c, d;
  connect(c, d, 1, /*secret=*/2);
  const auto bytes = pattern(1000);
  std::static_pointer_cast<VerbsWindow>(a_.target)->remote_key ^= 0x55;
  // The adapter reports it behind the call: small writes end at once, the flush tells.
  (void)a_.write({bytes.data(), 8});
  EXPECT_EQ(outcome(a_.flush()).code(), StatusCode::kPermissionDenied);
  ASSERT_TRUE(until([&] { return a_.recorder.errors == 1; }));
  EXPECT_EQ(a_.recorder.broken.code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(a_.recorder.deaths, 0);
  ASSERT_TRUE(until([&] { return b_.recorder.deaths + b_.recorder.errors == 1; }));

  const Completion written = c.write_with_notify(view_of(bytes), 0, 3);
  ASSERT_TRUE(until([&] {
    c.poll();
    d.poll();
    return d.recorder.taken.size() == 1 && written.settled();
  }));
  EXPECT_TRUE(holds(d.landing->base(), bytes));
  EXPECT_EQ(c.recorder.deaths + c.recorder.errors + d.recorder.deaths + d.recorder.errors, 0);
}

TEST_F(VerbsErrorsTest, AnAdapterThatTakesNoRequestBreaksTheLinkAndSaysSo) {
  make_two({}, {});
  rnic_->refuse(Call::kPostSend, ENOMEM);
  std::vector<std::byte> destination(100);
  const Completion read = a_.read({destination.data(), destination.size()});
  const Status refused = outcome(read);
  EXPECT_THAT(refused.message(), HasSubstr("soft0 accepted no work request"));
  EXPECT_TRUE(settled(read));
  ASSERT_TRUE(until([&] { return a_.recorder.deaths + a_.recorder.errors > 0; }));
  EXPECT_EQ(a_.recorder.deaths, 0) << "nobody has died: " << a_.recorder.dead.message();
  EXPECT_EQ(a_.recorder.broken.message(), refused.message());
}

TEST_F(VerbsErrorsTest, TheDeathOfAnyLaneIsToldAlsoOfTheLast) {
  for (std::uint32_t lane = 0; lane < 3; ++lane) {
    SCOPED_TRACE(lane);
    make_two({}, {}, {}, {}, 3);
    rnic_->fail_next(IBV_WC_RETRY_EXC_ERR, 0x81, pair_of(lane));
    std::vector<std::byte> destination(100);
    const Completion read = a_.read({destination.data(), destination.size()}, 0, lane);
    EXPECT_EQ(outcome(read).code(), StatusCode::kPeerDead);
    ASSERT_TRUE(until([&] { return a_.recorder.deaths == 1; }))
        << "nobody is told, and the link goes on without this lane";
    EXPECT_THAT(a_.recorder.dead.message(), HasSubstr("all retries are used up"));
    close();
    a_ = {};
    b_ = {};
  }
}

TEST_F(VerbsErrorsTest, WhatEndsOneLaneIsTheReasonOnTheOthers) {
  make_two({}, {}, {}, {}, 3);
  for (ibv_qp* const pair : rnic_->pairs()) rnic_->hold(pair);
  std::vector<std::byte> destination(300);
  std::vector<Completion> reads;
  for (std::uint32_t lane = 0; lane < 3; ++lane) {
    reads.push_back(a_.read({destination.data() + lane * 100, 100}, 0, lane));
  }
  rnic_->fail_next(IBV_WC_LOC_PROT_ERR, 0x11, pair_of(1));
  rnic_->release(pair_of(1));
  for (const Completion& read : reads) {
    EXPECT_THAT(outcome(read).message(), HasSubstr("vendor error 0x11")) << "the first error";
    EXPECT_TRUE(settled(read));
  }
  EXPECT_EQ(a_.recorder.errors, 1);
}

TEST_F(VerbsErrorsTest, APortThatGoesDownEndsNothing) {
  make();
  rnic_->raise_port_event(IBV_EVENT_PORT_ERR);
  rnic_->raise_port_event(IBV_EVENT_PORT_ACTIVE);
  const auto bytes = pattern(100);
  ASSERT_TRUE(settled(a_.write_with_notify(view_of(bytes), 0, 1)));
  ASSERT_TRUE(until([&] { return b_.recorder.taken.size() == 1; }));
  EXPECT_EQ(a_.recorder.deaths + a_.recorder.errors, 0);
}

TEST_F(VerbsErrorsTest, AFatalEventEndsEveryChannelOfItsDeviceAndNoOther) {
  RnicOptions one, other;
  one.name = "soft0";
  other.name = "soft1";
  other.ports[0].address = "127.0.0.2";
  rnic_ = std::make_unique<SoftwareRnic>(std::vector<RnicOptions>{one, other});
  FabricOptions on_one, on_other;
  on_one.device = "soft0";
  on_other.device = "soft1";
  make_hosts(*rnic_, *rnic_, on_one, on_one, 2);
  Side c, d;
  connect(c, d, 2, 2);
  Host e(*rnic_, on_other), f(*rnic_, on_other);
  std::swap(host_a_->fabric, e.fabric);
  std::swap(host_b_->fabric, f.fabric);
  Side g, h;
  connect(g, h, 1, 3);
  std::swap(host_a_->fabric, e.fabric);
  std::swap(host_b_->fabric, f.fabric);
  std::vector<std::byte> destination(100);
  rnic_->pause();
  const Completion read = a_.read({destination.data(), destination.size()}, 0, 1);
  rnic_->raise_device_event(IBV_EVENT_DEVICE_FATAL, 0);
  const auto over = [](const Side& side) { return side.recorder.errors == 1; };
  ASSERT_TRUE(until([&] {
    for (Side* const side : {&c, &d, &g, &h}) side->poll();
    return over(a_) && over(b_) && over(c) && over(d);
  }));
  rnic_->resume();
  EXPECT_THAT(a_.recorder.broken.message(), HasSubstr("soft0: the adapter has failed"));
  EXPECT_THAT(outcome(read).message(), HasSubstr("the adapter has failed"));
  EXPECT_TRUE(settled(read));
  EXPECT_EQ(g.recorder.errors + g.recorder.deaths + h.recorder.errors + h.recorder.deaths, 0);
  ASSERT_TRUE(until([&, flushed = g.notify(5)] {
    g.poll();
    h.poll();
    return h.recorder.taken.size() == 1;
  }));
  for (Side* const side : {&c, &d, &g, &h}) side->link.reset();
}

TEST_F(VerbsErrorsTest, ADeviceThatIsPulledOutEndsItsChannels) {
  make_two({}, {}, {}, {}, 2);
  std::vector<std::byte> destination(100);
  rnic_b_->pause();
  const Completion read = a_.read({destination.data(), destination.size()});
  rnic_->remove_device();
  ASSERT_TRUE(until([&] { return a_.recorder.errors + a_.recorder.deaths == 1; }));
  rnic_b_->resume();
  ASSERT_TRUE(until([&] { return b_.recorder.errors + b_.recorder.deaths == 1; }));
  EXPECT_FALSE(outcome(read).ok());
  EXPECT_TRUE(settled(read));
}

TEST_F(VerbsErrorsTest, APeerThatGoesIsDeadOnceBehindWhatHadArrived) {
  for (int round = 0; round < 20; ++round) {
    make({}, round % 3 + 1);
    constexpr std::uint32_t kCount = 40;
    for (std::uint32_t tag = 0; tag < kCount; ++tag) (void)b_.notify(tag, tag % b_.lanes);
    if (round % 2 == 0) expect_ok(b_.flush());
    const auto bytes = pattern(100'000);
    ASSERT_TRUE(settled(b_.write(view_of(bytes))));
    expect_ok(b_.flush());  // everything before it has arrived
    std::vector<std::byte> destination(100);
    b_.link.reset();
    const Completion read = a_.read({destination.data(), destination.size()});
    ASSERT_TRUE(until([&] { return a_.recorder.deaths == 1; }));
    EXPECT_EQ(a_.recorder.dead.code(), StatusCode::kPeerDead);
    EXPECT_FALSE(outcome(read).ok());
    ASSERT_TRUE(settled(read));
    ASSERT_TRUE(until([&] { return a_.progress.drained; }));
    for (int i = 0; i < 10; ++i) a_.poll();
    EXPECT_EQ(a_.recorder.deaths, 1);
    EXPECT_EQ(a_.recorder.errors, 0);
    EXPECT_EQ(a_.recorder.taken.size(), kCount);
    close();
    a_ = {};
    b_ = {};
  }
}

TEST_F(VerbsErrorsTest, WhatHadArrivedIsTakenAlsoByASinkThatHadNoRoom) {
  make();
  a_.recorder.room = 0;
  for (std::uint32_t tag = 0; tag < 50; ++tag) (void)b_.notify(tag);
  const auto bytes = pattern(8);
  (void)b_.write(view_of(bytes));
  expect_ok(b_.flush());
  b_.link.reset();
  ASSERT_TRUE(until([&] { return a_.recorder.deaths == 1; }));
  EXPECT_FALSE(a_.progress.drained);
  a_.recorder.room = 1 << 30;
  ASSERT_TRUE(until([&] { return a_.progress.drained; }));
  EXPECT_EQ(a_.recorder.taken.size(), 50U);
  EXPECT_EQ(a_.recorder.deaths, 1);
}

TEST_F(VerbsErrorsTest, ABrokenWayEndsEverythingThatWaits) {
  FabricOptions options;
  options.send_queue_depth = 16;
  options.chunk_bytes = 32 << 10;
  options.receive_credits = 4;
  make_two({}, {}, options, options, 2);
  b_.recorder.room = 0;
  const auto bytes = pattern(1 << 20);
  std::vector<std::byte> destination(1 << 20);
  rnic_->pause();
  std::vector<Completion> all;
  for (std::uint32_t i = 0; i < 30; ++i) {
    all.push_back(a_.write_with_notify(view_of(bytes), 0, i, i % 2));
    all.push_back(a_.read({destination.data(), destination.size()}, 0, i % 2));
    all.push_back(a_.tell(OperationKind::kMessage, i, i % 2, {bytes.data(), 300}));
  }
  all.push_back(a_.flush());
  rnic_->break_link();
  rnic_->resume();
  for (const Completion& one : all) {
    const Status status = outcome(one);
    EXPECT_EQ(status.code(), StatusCode::kPeerDead) << status.message();
    EXPECT_TRUE(settled(one));
  }
  ASSERT_TRUE(until([&] { return a_.recorder.deaths == 1; }));
  EXPECT_EQ(a_.recorder.errors, 0);
}

TEST_F(VerbsErrorsTest, APeerThatStandsStillEndsNothingAndKeepsItsMemory) {
  make_two({}, {}, {}, {}, 2);
  const auto bytes = pattern(300'000);
  rnic_b_->pause();
  std::vector<std::byte> destination(100);
  const Completion written = a_.write_with_notify(view_of(bytes), 0, 1);
  const Completion read = a_.read({destination.data(), destination.size()}, 0, 1);
  const auto soon = core::Deadline::after(std::chrono::milliseconds(20));
  EXPECT_EQ(a_.link->revoke(a_.landing_key, kRegion, soon).code(), StatusCode::kPeerSilent);
  for (int i = 0; i < 1000; ++i) a_.poll();
  EXPECT_FALSE(written.done() || read.done());
  EXPECT_EQ(a_.recorder.deaths + a_.recorder.errors, 0);
  rnic_b_->resume();
  expect_ok(written);
  expect_ok(read);
  ASSERT_TRUE(until([&] { return a_.recorder.revoked == 1; }));
  EXPECT_TRUE(a_.link->revoke(a_.landing_key, kRegion, core::Deadline::after({})).ok());
}

TEST_F(VerbsErrorsTest, AfterADeathTheSameHostsConnectAgain) {
  make();
  for (std::uint8_t round = 2; round < 6; ++round) {
    b_.link.reset();
    ASSERT_TRUE(until([&] { return a_.recorder.deaths == 1; }));
    a_ = {};
    b_ = {};
    connect(a_, b_, round % 3 + 1, round);
    const auto bytes = pattern(1000, round);
    expect_ok(a_.write_with_notify(view_of(bytes), 0, round));
    ASSERT_TRUE(until([&] { return b_.recorder.taken.size() == 1; }));
    EXPECT_TRUE(holds(b_.landing->base(), bytes));
  }
}

TEST_F(VerbsErrorsTest, AnOwnEndCancelsWhatIsUnderWay) {
  make({}, 2);
  std::vector<std::byte> destination(100);
  rnic_->pause();
  const Completion read = a_.read({destination.data(), destination.size()}, 0, 1);
  const auto bytes = pattern(100);
  (void)a_.write({bytes.data(), 8});
  const Completion flushed = a_.flush();
  rnic_->resume();
  rnic_->pause();
  a_.link.reset();
  EXPECT_TRUE(read.settled() && flushed.settled());
  for (const Completion* one : {&read, &flushed}) {
    const Status status = one->wait(std::chrono::seconds(0));
    EXPECT_TRUE(status.ok() || status.code() == StatusCode::kCancelled) << status.message();
  }
  EXPECT_EQ(a_.recorder.deaths + a_.recorder.errors, 0);
  rnic_->resume();
}

TEST_F(VerbsErrorsTest, ACutEndsTheConnectionAndWhatHadArrivedIsStillTaken) {
  make({}, 3);
  const auto bytes = pattern(8);
  for (std::uint32_t tag = 0; tag < 30; ++tag) (void)b_.notify(tag, tag % 3);
  for (std::uint32_t lane = 0; lane < 3; ++lane) {
    (void)b_.link->lane(lane).post(b_.write_operation(view_of(bytes), 0));
  }
  const Completion flushed = b_.flush();
  while (!flushed.done()) b_.poll();
  a_.link->cut(/*in_good_order=*/false);
  EXPECT_TRUE(a_.link->revoke(a_.landing_key, kRegion, core::Deadline::after({})).ok());
  ASSERT_TRUE(until([&] {
    bool drained = true;
    for (std::uint32_t lane = 0; lane < 3; ++lane) {
      drained = a_.link->lane(lane).poll(a_.recorder).drained && drained;
    }
    return drained;
  }));
  EXPECT_EQ(a_.recorder.taken.size(), 30U);
  ASSERT_TRUE(until([&] { return b_.recorder.deaths == 1; }));
}

}  // namespace
}  // namespace farwrite::fabric::verbs
