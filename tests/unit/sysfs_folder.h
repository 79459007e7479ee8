// A folder like /sys, of a machine that a test makes up.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace farwrite {

class SysfsFolder {
 public:
  SysfsFolder() {
    std::string made = testing::TempDir() + "farwrite-sysfs-XXXXXX";
    EXPECT_NE(::mkdtemp(made.data()), nullptr);
    root_ = made;
    std::filesystem::create_directories(root_ / "class/infiniband");
    std::filesystem::create_directories(root_ / "bus/pci/devices");
  }
  ~SysfsFolder() { std::filesystem::remove_all(root_); }
  SysfsFolder(const SysfsFolder&) = delete;
  SysfsFolder& operator=(const SysfsFolder&) = delete;

  std::string path() const { return root_; }

  // "0", "0-1": the NUMA nodes that have memory.
  void set_memory_nodes(const std::string& nodes) const {
    write(root_ / "devices/system/node/has_memory", nodes);
  }
  // `place`: "pci0000:3a/0000:3a:00.0/0000:3b:00.0". `node` is the text of the file numa_node.
  void add_adapter(const std::string& name, const std::string& place,
                   const std::string& node) const {
    const std::filesystem::path device = add_device(place, node);
    std::filesystem::create_directories(root_ / "class/infiniband" / name);
    std::filesystem::create_symlink(device, root_ / "class/infiniband" / name / "device");
  }
  // As rxe and siw show: without a link to a device.
  void add_software_adapter(const std::string& name) const {
    std::filesystem::create_directories(root_ / "class/infiniband" / name);
  }
  void add_gpu(const std::string& place, const std::string& node,
               const std::string& pci_class = "0x030200",
               const std::string& vendor = "0x10de") const {
    const std::filesystem::path device = add_device(place, node);
    write(device / "class", pci_class);
    write(device / "vendor", vendor);
    std::filesystem::create_symlink(device, root_ / "bus/pci/devices" / device.filename());
  }

 private:
  std::filesystem::path add_device(const std::string& place, const std::string& node) const {
    std::filesystem::path device = root_ / "devices" / place;
    write(device / "numa_node", node);
    return device;
  }
  static void write(const std::filesystem::path& file, const std::string& text) {
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text << "\n";
  }

  std::filesystem::path root_;
};

}  // namespace farwrite
