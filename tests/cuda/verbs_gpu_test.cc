// A GPU's memory over verbs: read where it lies, below one host bridge; refused or staged
// elsewhere.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cuda/gpu_fixture.h"
#include "device/device.h"
#include "farwrite/memory_kind.h"
#include "gpu/gpu.h"
#include "memory/copy.h"
#include "unit/sysfs_folder.h"
#include "verbs_double/software_rnic.h"

namespace farwrite {
namespace {

using cuda_double::cudaDoubleCalls;
using cuda_double::cudaDoubleFail;
using cuda_double::cudaDoublePause;
using cuda_double::cudaDoubleResume;
using testing::Each;
using testing::HasSubstr;
using verbs_double::Call;
using verbs_double::RnicOptions;
using verbs_double::SoftwareRnic;

constexpr std::chrono::seconds kPatience{30};
constexpr std::uint64_t kSegment = std::uint64_t{2} << 20;
constexpr std::uint64_t kBytes = std::uint64_t{3} << 20;
constexpr const char* kBelowOneBridge = "pci0000:00/0000:00:02.0/";
constexpr const char* kElsewhere = "pci0000:80/0000:80:02.0/";

class VerbsGpuTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(open_cuda_double());
    sysfs_.add_adapter("soft0", std::string(kBelowOneBridge) + "0000:3b:00.0", "0");
    rnic_.set_sysfs(sysfs_.path());
  }
  void TearDown() override { EXPECT_TRUE(cudaDoubleFail("")); }

  void place_gpu(const std::string& bridge) {
    auto gpu = gpu::Gpu::at(0);
    ASSERT_TRUE(gpu.ok()) << gpu.status().message();
    sysfs_.add_gpu(bridge + (*gpu)->pci_address(), "0");
  }
  Device open() {
    DeviceOptions options;
    options.fabrics = {FabricKind::kVerbs};
    options.verbs.library = &rnic_;
    options.huge_pages = HugePages::kOff;
    options.segment_bytes = options.receive_segment_bytes = kSegment;
    return Device::open(options).value();
  }
  static std::pair<Channel, Channel> connect(Device& near, Device& far) {
    auto accepted = std::async(std::launch::async, [&] { return far.accept(kPatience); });
    Channel channel = near.connect(far.endpoint(), kPatience).value();
    return {std::move(channel), accepted.get().value()};
  }
  static void fill(const MemoryRegion& region, int value) {
    const std::vector<std::byte> bytes(region.size(), static_cast<std::byte>(value));
    ASSERT_TRUE(copy_memory(region.data(), bytes.data(), bytes.size()).ok());
  }

  const SysfsFolder sysfs_;
  SoftwareRnic rnic_{std::vector<RnicOptions>{RnicOptions{.name = "soft0"}}};
};

TEST_F(VerbsGpuTest, APeerReadsTheMemoryWhereItLies) {
  place_gpu(kBelowOneBridge);
  Device owner = open(), reader = open();
  auto [near, far] = connect(reader, owner);
  const MemoryRegion region = owner.allocate(kBytes, MemoryKind::cuda(0)).value();
  EXPECT_EQ(region.kind(), MemoryKind::cuda(0));
  fill(region, 7);
  ASSERT_TRUE(owner.publish("gpu", region).ok());
  const RemoteRegion remote = near.lookup("gpu", kPatience).value();
  const std::uint64_t staged = owner.stats().gpu.staged_bytes;
  std::vector<std::byte> read(kBytes);
  ASSERT_TRUE(near.read({read.data(), read.size()}, remote).wait(kPatience).ok());
  EXPECT_THAT(read, Each(std::byte{7}));
  EXPECT_EQ(owner.stats().gpu.staged_bytes, staged) << "read from where it lies";
}

TEST_F(VerbsGpuTest, OnTheWayToAGpuTheBytesPassThroughHostMemory) {
  place_gpu(kBelowOneBridge);
  Device owner = open(), reader = open();
  auto [near, far] = connect(reader, owner);
  const MemoryRegion region = owner.allocate(kBytes, MemoryKind::cuda(0)).value();
  fill(region, 8);
  ASSERT_TRUE(owner.publish("gpu", region).ok());
  const RemoteRegion remote = near.lookup("gpu", kPatience).value();
  const MemoryRegion mine = reader.allocate(kBytes, MemoryKind::cuda(0)).value();
  const std::uint64_t staged = reader.stats().gpu.staged_bytes;
  ASSERT_TRUE(near.read({mine.data(), mine.size()}, remote).wait(kPatience).ok());
  EXPECT_THAT(bytes_on_gpu(mine.data(), kBytes), Each(std::byte{8}));
  EXPECT_EQ(reader.stats().gpu.staged_bytes, staged + kBytes);

  const MemoryRegion inbox = far.allocate(kBytes).value();
  ASSERT_TRUE(far.publish("inbox", inbox).ok());
  const RemoteRegion target = near.lookup("inbox", kPatience).value();
  ASSERT_TRUE(
      near.write_with_notify({mine.data(), mine.size()}, target, 0, 5).wait(kPatience).ok());
  EXPECT_EQ(far.wait_notification(kPatience).value().tag, 5U);
  EXPECT_EQ(inbox.data()[kBytes - 1], std::byte{8});
  EXPECT_EQ(reader.stats().gpu.staged_bytes, staged + 2 * kBytes);
}

TEST_F(VerbsGpuTest, AStagedTransferThatFailsIsAnErrorAndLosesNothing) {
  place_gpu(kBelowOneBridge);
  Device owner = open(), reader = open();
  auto [near, far] = connect(reader, owner);
  const MemoryRegion region = owner.allocate(kBytes, MemoryKind::cuda(0)).value();
  ASSERT_TRUE(owner.publish("gpu", region).ok());
  const RemoteRegion remote = near.lookup("gpu", kPatience).value();
  const MemoryRegion mine = reader.allocate(kBytes, MemoryKind::cuda(0)).value();
  const std::uint64_t used = reader.stats().send.used;
  ASSERT_TRUE(cudaDoubleFail("cuMemcpyAsync=1"));
  const Status failed = near.read({mine.data(), mine.size()}, remote).wait(kPatience);
  EXPECT_EQ(failed.code(), StatusCode::kUnavailable);
  EXPECT_THAT(failed.message(), HasSubstr("cuMemcpyAsync"));
  fill(region, 9);
  ASSERT_TRUE(near.read({mine.data(), mine.size()}, remote).wait(kPatience).ok());
  EXPECT_THAT(bytes_on_gpu(mine.data(), kBytes), Each(std::byte{9}));
  EXPECT_EQ(reader.stats().send.used, used) << "the staging memory was given back";
}

TEST_F(VerbsGpuTest, ClosingWaitsForTheCopyOfAStagedRead) {
  place_gpu(kBelowOneBridge);
  Device owner = open(), reader = open();
  auto [near, far] = connect(reader, owner);
  const MemoryRegion region = owner.allocate(kBytes, MemoryKind::cuda(0)).value();
  fill(region, 6);
  ASSERT_TRUE(owner.publish("gpu", region).ok());
  const RemoteRegion remote = near.lookup("gpu", kPatience).value();
  const MemoryRegion mine = reader.allocate(kBytes, MemoryKind::cuda(0)).value();
  const unsigned long long copies = cudaDoubleCalls("cuMemcpyAsync");
  cudaDoublePause();
  const Completion read = near.read({mine.data(), mine.size()}, remote);
  while (cudaDoubleCalls("cuMemcpyAsync") == copies) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(near.close(std::chrono::milliseconds(50)).code(), StatusCode::kDeadlineExceeded);
  EXPECT_FALSE(read.settled());
  cudaDoubleResume();
  EXPECT_TRUE(near.close(kPatience).ok());
  EXPECT_TRUE(read.settled());
  EXPECT_THAT(bytes_on_gpu(mine.data(), kBytes), Each(std::byte{6}));
}

TEST_F(VerbsGpuTest, ARegistrationGoesWithItsRegion) {
  place_gpu(kBelowOneBridge);
  Device owner = open();
  const std::uint64_t before = owner.stats().adapters.live;
  std::optional<MemoryRegion> region = owner.allocate(kBytes, MemoryKind::cuda(0)).value();
  EXPECT_EQ(owner.stats().adapters.live, before + 1);
  region.reset();
  EXPECT_EQ(owner.stats().adapters.live, before);
}

TEST_F(VerbsGpuTest, AnAdapterBelowAnotherBridgeDoesNotReachTheGpu) {
  place_gpu(kElsewhere);
  const auto refused = open().allocate(kBytes, MemoryKind::cuda(0));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), StatusCode::kUnsupported);
  EXPECT_THAT(refused.status().message(), HasSubstr("not below one PCIe host bridge"));
}

TEST_F(VerbsGpuTest, AnAdapterThatRegistersNoDmaBufIsAnError) {
  place_gpu(kBelowOneBridge);
  Device device = open();
  rnic_.refuse(Call::kRegDmabufMr, EOPNOTSUPP);
  const auto refused = device.allocate(kBytes, MemoryKind::cuda(0));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), StatusCode::kUnsupported);
  EXPECT_THAT(refused.status().message(), HasSubstr("ibv_reg_dmabuf_mr"));
  rnic_.allow(Call::kRegDmabufMr);
  EXPECT_TRUE(device.allocate(kBytes, MemoryKind::cuda(0)).ok());
}

TEST_F(VerbsGpuTest, ADriverThatExportsNothingIsAnError) {
  place_gpu(kBelowOneBridge);
  Device device = open();
  ASSERT_TRUE(cudaDoubleFail("cuMemGetHandleForAddressRange=801"));
  const auto refused = device.allocate(kBytes, MemoryKind::cuda(0));
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.status().message(), HasSubstr("cuMemGetHandleForAddressRange"));
}

TEST_F(VerbsGpuTest, PeersDoNotWriteIntoAGpu) {
  place_gpu(kBelowOneBridge);
  Device owner = open(), writer = open();
  auto [near, far] = connect(writer, owner);
  const auto refused = far.allocate(kBytes, MemoryKind::cuda(0));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), StatusCode::kUnsupported);
}

}  // namespace
}  // namespace farwrite
