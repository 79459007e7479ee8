// Where adapters and GPUs sit, read from folders like /sys.
#include "fabric/topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "unit/sysfs_folder.h"

namespace farwrite::fabric {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

// A machine with two sockets: an adapter and a GPU on the first one.
class TopologyTest : public testing::Test {
 protected:
  TopologyTest() {
    sysfs_.set_memory_nodes("0-1");
    sysfs_.add_adapter("mlx5_0", "pci0000:3a/0000:3a:00.0/0000:3b:00.0", "0");
  }
  bool reaches_the_gpu(const std::string& adapter) const {
    return reaches_directly(machine_.adapter(adapter), machine_.gpus().at(0));
  }

  const SysfsFolder sysfs_;
  const Topology machine_{sysfs_.path()};
};

TEST_F(TopologyTest, AnAdapterHasAnAddressANodeAndAHostBridge) {
  const PciDevice adapter = machine_.adapter("mlx5_0");
  EXPECT_EQ(adapter.name, "mlx5_0");
  EXPECT_EQ(adapter.address, "0000:3b:00.0");
  EXPECT_EQ(adapter.host_bridge, "pci0000:3a");
  EXPECT_EQ(adapter.numa_node, 0);
}

TEST_F(TopologyTest, AdaptersAreListedByName) {
  sysfs_.add_software_adapter("rxe0");
  sysfs_.add_adapter("mlx5_1", "pci0000:80/0000:80:01.0/0000:86:00.0", "1");
  std::vector<std::string> names;
  for (const PciDevice& adapter : machine_.adapters()) names.push_back(adapter.name);
  EXPECT_EQ(names, (std::vector<std::string>{"mlx5_0", "mlx5_1", "rxe0"}));
}

TEST_F(TopologyTest, AScalableFunctionIsWhereItsAdapterIs) {
  // Its device is a folder below the adapter's, without the file numa_node.
  sysfs_.add_adapter("mlx5_1", "pci0000:80/0000:80:01.0/0000:86:00.0", "1");
  const std::filesystem::path parent =
      std::filesystem::path(sysfs_.path()) / "devices/pci0000:80/0000:80:01.0/0000:86:00.0";
  std::filesystem::create_directories(parent / "mlx5_core.sf.2");
  sysfs_.add_software_adapter("mlx5_2");
  std::filesystem::create_symlink(parent / "mlx5_core.sf.2", std::filesystem::path(sysfs_.path()) /
                                                                 "class/infiniband/mlx5_2/device");
  EXPECT_EQ(machine_.adapter("mlx5_2").address, "0000:86:00.0");
  EXPECT_EQ(machine_.adapter("mlx5_2").host_bridge, "pci0000:80");
  EXPECT_EQ(machine_.adapter("mlx5_2").numa_node, 1);
}

TEST_F(TopologyTest, NothingIsKnownOfASoftwareAdapter) {
  sysfs_.add_software_adapter("rxe0");
  for (const char* const name : {"rxe0", "gone0"}) {
    const PciDevice adapter = machine_.adapter(name);
    EXPECT_EQ(adapter.name, name);
    EXPECT_EQ(adapter.address, "");
    EXPECT_EQ(adapter.host_bridge, "");
    EXPECT_EQ(adapter.numa_node, -1);
    EXPECT_EQ(machine_.node_near(name), -1);
  }
}

TEST_F(TopologyTest, ANodeThatTheKernelDoesNotKnowOrThatIsNoNumberIsUnknown) {
  int slot = 0;
  for (const char* const text : {"-1", "-7", "", "zero", "1 or 2", "0x1", "99999999999999999999"}) {
    const std::string name = "mlx5_" + std::to_string(10 + slot);
    sysfs_.add_adapter(name, "pci0000:80/0000:86:00." + std::to_string(slot++), text);
    EXPECT_EQ(machine_.adapter(name).numa_node, -1) << text;
    EXPECT_EQ(machine_.adapter(name).host_bridge, "pci0000:80") << text;
  }
}

TEST_F(TopologyTest, ADeviceThatIsNotOnPciIsUnknown) {
  sysfs_.add_adapter("hns_0", "platform/HISI00D1:00", "1");
  EXPECT_EQ(machine_.adapter("hns_0").address, "");
  EXPECT_EQ(machine_.adapter("hns_0").host_bridge, "");
  EXPECT_EQ(machine_.adapter("hns_0").numa_node, -1);
}

TEST_F(TopologyTest, MemoryForAnAdapterLiesOnItsNode) {
  sysfs_.add_adapter("mlx5_1", "pci0000:80/0000:80:01.0/0000:86:00.0", "1");
  EXPECT_EQ(machine_.node_near("mlx5_0"), 0);
  EXPECT_EQ(machine_.node_near("mlx5_1"), 1);
  sysfs_.set_memory_nodes("0,2");
  EXPECT_EQ(machine_.node_near("mlx5_1"), 1);
}

TEST_F(TopologyTest, WhereOneNodeHasAllMemoryNoNodeIsNearer) {
  sysfs_.set_memory_nodes("0");
  EXPECT_EQ(machine_.node_near("mlx5_0"), -1);
  const SysfsFolder without_numa;
  without_numa.add_adapter("mlx5_0", "pci0000:3a/0000:3a:00.0/0000:3b:00.0", "0");
  EXPECT_EQ(Topology(without_numa.path()).node_near("mlx5_0"), -1);
}

TEST_F(TopologyTest, AnAdapterReachesAGpuBelowItsHostBridge) {
  sysfs_.add_gpu("pci0000:3a/0000:3a:02.0/0000:3c:00.0", "0");
  EXPECT_TRUE(reaches_the_gpu("mlx5_0"));
}

TEST_F(TopologyTest, AGpuBelowAnotherHostBridgeIsStagedEvenOnTheSameNode) {
  sysfs_.add_gpu("pci0000:5d/0000:5d:00.0/0000:5e:00.0", "0");
  EXPECT_FALSE(reaches_the_gpu("mlx5_0"));
}

TEST_F(TopologyTest, AGpuOnAnotherNodeIsStaged) {
  sysfs_.add_gpu("pci0000:80/0000:80:01.0/0000:86:00.0", "1");
  EXPECT_FALSE(reaches_the_gpu("mlx5_0"));
}

TEST_F(TopologyTest, ASoftwareAdapterReachesNoGpu) {
  sysfs_.add_software_adapter("rxe0");
  sysfs_.add_gpu("pci0000:3a/0000:3a:02.0/0000:3c:00.0", "0");
  EXPECT_FALSE(reaches_the_gpu("rxe0"));
  EXPECT_FALSE(reaches_directly(PciDevice(), PciDevice())) << "two unknown places are not one";
}

TEST_F(TopologyTest, GpusAreNvidiasDisplayControllers) {
  sysfs_.add_gpu("pci0000:3a/0000:3c:00.0", "0", "0x030000");
  sysfs_.add_gpu("pci0000:3a/0000:3d:00.0", "-1", "0x030200");
  sysfs_.add_gpu("pci0000:3a/0000:3d:00.1", "0", "0x040300");            // its sound
  sysfs_.add_gpu("pci0000:3a/0000:3e:00.0", "0", "0x030000", "0x1a03");  // a server's console
  const std::vector<PciDevice> gpus = machine_.gpus();
  ASSERT_THAT(gpus, SizeIs(2));
  EXPECT_EQ(gpus[0].name, "0000:3c:00.0");
  EXPECT_EQ(gpus[0].numa_node, 0);
  EXPECT_EQ(gpus[1].address, "0000:3d:00.0");
  EXPECT_EQ(gpus[1].host_bridge, "pci0000:3a");
  EXPECT_EQ(gpus[1].numa_node, -1);
}

TEST(Topology, OfAMachineWithoutSysfsIsEmpty) {
  const Topology machine("/nowhere");
  EXPECT_THAT(machine.adapters(), IsEmpty());
  EXPECT_THAT(machine.gpus(), IsEmpty());
  EXPECT_EQ(machine.node_near("mlx5_0"), -1);
}

}  // namespace
}  // namespace farwrite::fabric
