// Memory that a user registers itself serves transfers like any other, and costs nothing where no
// fabric has use for it.
#include <memory>
#include <utility>
#include <vector>

#include "conformance/conformance.h"

namespace farwrite {
namespace {

using Registrations = ConformancePair;

constexpr std::uint64_t kRegisteredBytes = 300'000;

TEST_P(Registrations, RegisteredMemoryIsSourceAndDestination) {
  land(kRegisteredBytes);
  show(make_bytes(kRegisteredBytes, 5));
  std::vector<std::byte> memory = make_bytes(kRegisteredBytes, 6);
  auto registration = near_device_.register_memory(MutableByteView(memory.data(), memory.size()));
  ASSERT_OK(registration);
  EXPECT_EQ(registration->memory().data, memory.data());
  EXPECT_EQ(registration->memory().size, kRegisteredBytes);
  const AdapterStats before = near_device_.stats().adapters;
  EXPECT_EQ(before.live > 0, registration->has_effect());

  ASSERT_OK(near_.write({memory.data(), kRegisteredBytes}, target_).wait(kHang));
  ASSERT_OK(near_.flush().wait(kHang));
  ASSERT_TRUE(holds(landing_.data(), kRegisteredBytes, 6));
  ASSERT_OK(near_.read({memory.data() + 100, kRegisteredBytes - 100}, source_).wait(kHang));
  ASSERT_TRUE(holds(memory.data() + 100, kRegisteredBytes - 100, 5));

  const AdapterStats after = near_device_.stats().adapters;
  EXPECT_EQ(after.transfers_registered, before.transfers_registered);
  EXPECT_EQ(after.on_demand, before.on_demand);
}

TEST_P(Registrations, ReleasingTwiceIsFine) {
  std::vector<std::byte> memory(kRegisteredBytes);
  const std::uint64_t live = near_device_.stats().adapters.live;
  auto first = near_device_.register_memory(ByteView(memory.data(), memory.size()));
  ASSERT_OK(first);
  MemoryRegistration second = *std::move(first);
  EXPECT_EQ(second.memory().size, kRegisteredBytes);
  EXPECT_EQ(near_device_.stats().adapters.live, live + (second.has_effect() ? 1 : 0));
  second.release();
  second.release();
  EXPECT_EQ(second.memory().data, nullptr);
  EXPECT_FALSE(second.has_effect());
  EXPECT_EQ(near_device_.stats().adapters.live, live);
}

TEST_P(Registrations, LettingGoDuringATransferDoesNotDisturbIt) {
  land(kRegisteredBytes);
  const std::vector<std::byte> memory = make_bytes(kRegisteredBytes, 7);
  auto registration = near_device_.register_memory(ByteView(memory.data(), memory.size()));
  ASSERT_OK(registration);
  const Completion write = near_.write({memory.data(), kRegisteredBytes}, target_);
  registration->release();
  ASSERT_OK(write.wait(kHang));
  ASSERT_OK(near_.flush().wait(kHang));
  EXPECT_TRUE(holds(landing_.data(), kRegisteredBytes, 7));
}

TEST_P(Registrations, ARegistrationMayOutliveItsDevice) {
  std::vector<std::byte> memory(kRegisteredBytes);
  auto registration = near_device_.register_memory(MutableByteView(memory.data(), memory.size()));
  ASSERT_OK(registration);
  const AdapterStats before = near_device_.stats().adapters;
  ASSERT_OK(near_device_.close());
  EXPECT_EQ(near_device_.stats().adapters.on_demand, before.on_demand) << "counters never fall";
  near_device_ = Device();
  near_ = Channel();
  registration->release();
}

TEST_P(Registrations, AClosedDeviceAndNoMemoryAreRefused) {
  EXPECT_CODE(kInvalidArgument, near_device_.register_memory(ByteView()).status());
  std::byte byte{};
  EXPECT_CODE(kInvalidArgument, near_device_.register_memory(ByteView(&byte, 0)).status());
  ASSERT_OK(near_device_.close());
  EXPECT_CODE(kFailedPrecondition, near_device_.register_memory(ByteView(&byte, 1)).status());
}

FARWRITE_EVERY_FABRIC(Registrations);

}  // namespace
}  // namespace farwrite
