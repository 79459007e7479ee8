// What transfers of a verbs link cost in registrations, and what happens when one is refused.
#include <sys/resource.h>

#include "unit/verbs_link_fixture.h"

namespace farwrite::fabric::verbs {
namespace {

using testing::HasSubstr;

class VerbsRegisteringTest : public VerbsPair {
 protected:
  AdapterStats stats() const { return host_a_->fabric->registration_counters(); }
};

TEST_F(VerbsRegisteringTest, TransfersFromSegmentsRegisterNothing) {
  make();
  const std::uint64_t ever = rnic_->registrations_ever();
  for (std::uint32_t i = 0; i < 500; ++i) {
    const std::uint64_t offset = i * 1000;
    ASSERT_TRUE(settled(a_.write_with_notify({a_.shown->base() + offset, 50'000}, offset, i)));
    // An export segment is no place to read into; a landing segment is.
    ASSERT_TRUE(settled(a_.read({a_.landing->base() + offset, 50'000}, offset)));
  }
  EXPECT_EQ(rnic_->registrations_ever(), ever);
  EXPECT_EQ(stats().transfers, 1000U);
  EXPECT_EQ(stats().transfers_registered, 0U);
  EXPECT_EQ(a_.link->counters().copies, 0U);
}

TEST_F(VerbsRegisteringTest, OtherMemoryIsRegisteredForItsTransferAndNoLonger) {
  make();
  const std::uint64_t live = rnic_->registrations_live();
  std::vector<std::byte> bytes = pattern(100'000);
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(settled(a_.write(view_of(bytes))));
    EXPECT_EQ(rnic_->registrations_live(), live) << "before the completion is told";
    ASSERT_TRUE(settled(a_.read({bytes.data(), bytes.size()})));
    EXPECT_EQ(rnic_->registrations_live(), live);
  }
  EXPECT_EQ(stats().on_demand, 20U);
  EXPECT_EQ(stats().transfers_registered, 20U);
}

TEST_F(VerbsRegisteringTest, MemoryThatTheUserRegisteredCostsNothingMore) {
  make();
  std::vector<std::byte> bytes = pattern(100'000);
  auto held = host_a_->fabric->register_memory(view_of(bytes), true);
  ASSERT_TRUE(held.ok() && *held != nullptr);
  const std::uint64_t ever = rnic_->registrations_ever();
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(settled(a_.write(view_of(bytes))));
    ASSERT_TRUE(settled(a_.read({bytes.data(), bytes.size()})));
  }
  EXPECT_EQ(rnic_->registrations_ever(), ever);
}

TEST_F(VerbsRegisteringTest, ARefusedOneEndsItsOperationAndNotTheChannel) {
  make();
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_MEMLOCK, &before), 0);
  rlimit low = before;
  low.rlim_cur = 64 << 10;
  ASSERT_EQ(::setrlimit(RLIMIT_MEMLOCK, &low), 0);
  std::vector<std::byte> bytes = pattern(100'000);
  rnic_->refuse_registration(ENOMEM);
  const Status written = outcome(a_.write_with_notify(view_of(bytes), 0, 1));
  const Status read = outcome(a_.read({bytes.data(), bytes.size()}));
  for (const Status* status : {&written, &read}) {
    EXPECT_EQ(status->code(), StatusCode::kResourceExhausted);
    EXPECT_THAT(status->message(),
                HasSubstr("this process may lock 64 KiB of memory (`ulimit -l`)"));
    EXPECT_THAT(status->message(), HasSubstr("memlock unlimited"));
  }
  (void)::setrlimit(RLIMIT_MEMLOCK, &before);
  // What needs no registration goes on, and everything does once there is room.
  expect_ok(a_.write_with_notify({bytes.data(), 8000}, 0, 2));
  rnic_->allow(Call::kRegMr);
  expect_ok(a_.write_with_notify(view_of(bytes), 0, 3));
  ASSERT_TRUE(until([&] { return b_.recorder.taken.size() == 2; }));
  EXPECT_EQ(b_.recorder.taken[0].tag, 2U) << "a refused write raises no tag";
  EXPECT_EQ(b_.recorder.taken[1].tag, 3U);
  EXPECT_TRUE(holds(b_.landing->base(), bytes));
  EXPECT_EQ(a_.recorder.errors + a_.recorder.deaths, 0);
}

TEST_F(VerbsRegisteringTest, ALandingSegmentIsRegisteredOnceAndGoesWithItsLink) {
  make();
  const std::uint64_t ever = rnic_->registrations_ever();
  for (std::uint64_t region = 2; region < 100; ++region) (void)b_.grant(region);
  EXPECT_EQ(rnic_->registrations_ever(), ever);
  const std::uint64_t live = rnic_->registrations_live();
  b_.link.reset();
  EXPECT_EQ(rnic_->registrations_live(), live - 3) << "the segment and the lane's two";
}

}  // namespace
}  // namespace farwrite::fabric::verbs
