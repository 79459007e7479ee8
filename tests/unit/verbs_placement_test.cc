// The NUMA node of a device's segments: the user's, the adapter's, or the kernel's choice.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <future>
#include <iterator>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/log.h"
#include "device/device.h"
#include "memory/page_policy.h"
#include "unit/sysfs_folder.h"
#include "verbs_double/software_rnic.h"

namespace farwrite {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using verbs_double::RnicOptions;
using verbs_double::SoftwareRnic;

constexpr std::chrono::seconds kPlacementPatience{30};
constexpr std::uint64_t kSegment = std::uint64_t{2} << 20;
constexpr const char* kNoSuchNode = "1000";

// The kernel's names of them are in a header that not every system has.
constexpr int kPreferred = 1;
constexpr int kBind = 2;

struct Policy {
  int mode = -1;
  unsigned long nodes = 0;  // a bit for each
  friend bool operator==(const Policy&, const Policy&) = default;
};

// Of the page at `address`; of the process where the page has none.
Policy policy_at(const void* address) {
  constexpr unsigned long kOfAddress = 2;
  Policy policy;
  std::array<unsigned long, 1024 / (8 * sizeof(unsigned long))> nodes{};
  EXPECT_EQ(::syscall(SYS_get_mempolicy, &policy.mode, nodes.data(), 1024, address, kOfAddress), 0);
  policy.nodes = nodes[0];
  return policy;
}

Policy policy_of_process() {
  static const int anything = 0;
  return policy_at(&anything);
}

class VerbsPlacementTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!memory::check_placement({.node = 0, .required = false}).ok()) {
      GTEST_SKIP() << "mbind(2) is refused here";
    }
    sysfs_.set_memory_nodes("0-1");
    core::set_log_level(core::LogLevel::kInfo);
    core::set_log_sink([](core::LogLevel level, std::string_view line) {
      const std::lock_guard lock(mutex_);
      if (level == core::LogLevel::kWarning) warnings_->emplace_back(line);
    });
  }
  void TearDown() override {
    core::set_log_sink(nullptr);
    core::set_log_level(core::LogLevel::kWarning);
    const std::lock_guard lock(mutex_);
    warnings_->clear();
  }

  // soft0 and soft1 are adapters on these nodes.
  void place_adapters(const std::string& first, const std::string& second) {
    sysfs_.add_adapter("soft0", "pci0000:3a/0000:3a:00.0/0000:3b:00.0", first);
    sysfs_.add_adapter("soft1", "pci0000:80/0000:80:00.0/0000:81:00.0", second);
  }
  DeviceOptions options() {
    rnic_.set_sysfs(sysfs_.path());
    DeviceOptions options;
    options.fabrics = {FabricKind::kVerbs};
    options.verbs.library = &rnic_;
    options.verbs.device = "soft0";
    options.huge_pages = HugePages::kOff;
    options.segment_bytes = options.receive_segment_bytes = kSegment;
    return options;
  }
  static Policy policy_of_send_memory(const DeviceOptions& options) {
    Device device = Device::open(options).value();
    return policy_at(device.allocate(64).value().data());
  }
  // Threads of earlier tests may write to the log as well.
  static std::vector<std::string> warnings() {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> ours;
    std::copy_if(warnings_->begin(), warnings_->end(), std::back_inserter(ours),
                 [](const std::string& line) { return line.find("NUMA") != std::string::npos; });
    return ours;
  }

  // A sink outlives the test.
  static inline std::mutex mutex_;
  static inline std::vector<std::string>* const warnings_ = new std::vector<std::string>();

  const SysfsFolder sysfs_;
  SoftwareRnic rnic_{
      std::vector<RnicOptions>{RnicOptions{.name = "soft0"},
                               RnicOptions{.name = "soft1", .ports = {{.address = "127.0.0.2"}}}}};
};

TEST_F(VerbsPlacementTest, SegmentsPreferTheNodeOfTheAdapter) {
  place_adapters("0", "0");
  const Policy node_0{kPreferred, 1};
  EXPECT_EQ(policy_of_send_memory(options()), node_0);
  Device near = Device::open(options()).value();
  Device far = Device::open(options()).value();
  auto accepted = std::async(std::launch::async, [&] { return far.accept(kPlacementPatience); });
  const Channel channel = near.connect(far.endpoint(), kPlacementPatience).value();
  Channel peer = accepted.get().value();
  EXPECT_EQ(policy_at(peer.allocate(64).value().data()), node_0) << "landing memory";
  EXPECT_THAT(warnings(), IsEmpty());
}

TEST_F(VerbsPlacementTest, OfSeveralAdaptersTheOneInUseDecides) {
  place_adapters(kNoSuchNode, "0");
  DeviceOptions second = options();
  second.verbs.device = "soft1";
  EXPECT_EQ(policy_of_send_memory(second), (Policy{kPreferred, 1}));
  EXPECT_THAT(warnings(), IsEmpty());
}

TEST_F(VerbsPlacementTest, TheNodeOfTheUserBindsAndBeatsTheAdapters) {
  place_adapters(kNoSuchNode, kNoSuchNode);
  DeviceOptions named = options();
  named.numa_node = 0;
  EXPECT_EQ(policy_of_send_memory(named), (Policy{kBind, 1}));
  EXPECT_THAT(warnings(), IsEmpty());
}

TEST_F(VerbsPlacementTest, MinusOneLeavesPlacementToTheKernel) {
  place_adapters("0", "0");
  DeviceOptions kernels = options();
  kernels.numa_node = -1;
  EXPECT_EQ(policy_of_send_memory(kernels), policy_of_process());
}

TEST_F(VerbsPlacementTest, OnAMachineWithOneNodePlacementIsTheKernels) {
  place_adapters("0", "0");
  sysfs_.set_memory_nodes("0");
  EXPECT_EQ(policy_of_send_memory(options()), policy_of_process());
}

TEST_F(VerbsPlacementTest, ASoftwareAdapterLeavesPlacementToTheKernel) {
  sysfs_.add_software_adapter("soft0");
  EXPECT_EQ(policy_of_send_memory(options()), policy_of_process());
  EXPECT_THAT(warnings(), IsEmpty());
}

TEST_F(VerbsPlacementTest, WithoutVerbsPlacementIsTheKernels) {
  place_adapters("0", "0");
  DeviceOptions shm = options();
  shm.fabrics = {FabricKind::kShm};
  EXPECT_EQ(policy_of_send_memory(shm), policy_of_process());
}

TEST_F(VerbsPlacementTest, ANodeOfTheAdapterThatTheKernelRefusesIsOneWarning) {
  place_adapters(kNoSuchNode, "0");
  Device device = Device::open(options()).value();
  const MemoryRegion first = device.allocate(kSegment).value();
  const MemoryRegion second = device.allocate(kSegment).value();
  EXPECT_EQ(policy_at(first.data()), policy_of_process());
  EXPECT_EQ(policy_at(second.data()), policy_of_process());
  ASSERT_THAT(warnings(), SizeIs(1));
  EXPECT_THAT(warnings()[0], AllOf(HasSubstr("NUMA node 1000"), HasSubstr("-1")));
}

TEST_F(VerbsPlacementTest, ADeviceDoesNotOpenWithANodeThatTheKernelRefuses) {
  place_adapters("0", "0");
  DeviceOptions named = options();
  named.numa_node = 1000;
  const auto refused = Device::open(named);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), StatusCode::kUnsupported);
  EXPECT_THAT(refused.status().message(), HasSubstr("the kernel refuses node 1000"));
}

}  // namespace
}  // namespace farwrite
