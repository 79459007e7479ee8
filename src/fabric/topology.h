// Topology: where RDMA adapters and GPUs sit in this machine, as sysfs describes it.
//
// "Towards Zero Copy Dataflows using RDMA", section 3: registered memory lies on the NUMA node of
// the adapter, and the adapter reaches a GPU's memory directly only below the same PCIe host
// bridge.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace farwrite::fabric {

struct PciDevice {
  std::string name;         // of an adapter: "mlx5_0"; of a GPU: its PCI address
  std::string address;      // "0000:3b:00.0"; empty for software adapters, which are not on PCIe
  std::string host_bridge;  // "pci0000:3a"; empty: unknown
  int numa_node = -1;       // -1: unknown
};

// Whether `adapter` reads and writes the memory of `gpu`. Otherwise the bytes pass through host
// memory.
bool reaches_directly(const PciDevice& adapter, const PciDevice& gpu);

// Reads the files anew in every call. What is missing or malformed is unknown, never an error.
class Topology {
 public:
  explicit Topology(std::filesystem::path sysfs = "/sys");

  // Of that name; only the name is known of an adapter that is not there.
  PciDevice adapter(const std::string& name) const;
  // All there are, by name.
  std::vector<PciDevice> adapters() const;
  // NVIDIA's, by PCI address.
  std::vector<PciDevice> gpus() const;
  // The NUMA node for memory that this adapter reads and writes. -1 if its node is unknown, or if
  // one node has all memory of the machine.
  int node_near(const std::string& adapter) const;

 private:
  bool has_several_memory_nodes() const;

  const std::filesystem::path sysfs_;
};

}  // namespace farwrite::fabric
