#include "fabric/topology.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <string_view>
#include <system_error>
#include <utility>

namespace farwrite::fabric {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kNvidia = "0x10de";
constexpr std::string_view kVgaController = "0x0300";  // the class without its last byte
constexpr std::string_view k3dController = "0x0302";

// The first line; empty if there is none.
std::string line_of(const fs::path& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  return line;
}

int node_in(const fs::path& file) {
  const std::string line = line_of(file);
  int node = -1;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), node);
  return error == std::errc() && end == line.data() + line.size() && node >= 0 ? node : -1;
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    names.push_back(entry->path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// "0000:3b:00.0"; a domain may have more digits.
bool is_pci_address(std::string_view name) {
  const std::size_t size = name.size();
  return size >= 12 && name[size - 2] == '.' && name[size - 5] == ':' && name[size - 8] == ':';
}

// What the folder of a device in sysfs tells: <sysfs>/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0,
// or a folder below that, as of an adapter's scalable function.
PciDevice device_at(std::string name, const fs::path& link) {
  PciDevice device;
  device.name = std::move(name);
  std::error_code error;
  fs::path folder = fs::canonical(link, error);
  if (error) return device;
  while (folder.has_relative_path() && !is_pci_address(folder.filename().native())) {
    folder = folder.parent_path();
  }
  if (!folder.has_relative_path()) return device;
  device.address = folder.filename();
  device.numa_node = node_in(folder / "numa_node");
  while (folder.has_relative_path() && !folder.filename().native().starts_with("pci")) {
    folder = folder.parent_path();
  }
  device.host_bridge = folder.filename();
  return device;
}

}  // namespace

bool reaches_directly(const PciDevice& adapter, const PciDevice& gpu) {
  return !adapter.host_bridge.empty() && adapter.host_bridge == gpu.host_bridge;
}

Topology::Topology(fs::path sysfs) : sysfs_(std::move(sysfs)) {}

PciDevice Topology::adapter(const std::string& name) const {
  return device_at(name, sysfs_ / "class/infiniband" / name / "device");
}

std::vector<PciDevice> Topology::adapters() const {
  std::vector<PciDevice> found;
  for (const std::string& name : names_in(sysfs_ / "class/infiniband")) {
    found.push_back(adapter(name));
  }
  return found;
}

std::vector<PciDevice> Topology::gpus() const {
  std::vector<PciDevice> found;
  const fs::path folder = sysfs_ / "bus/pci/devices";
  for (const std::string& address : names_in(folder)) {
    const std::string kind = line_of(folder / address / "class").substr(0, kVgaController.size());
    if (kind != kVgaController && kind != k3dController) continue;
    if (line_of(folder / address / "vendor") == kNvidia) {
      found.push_back(device_at(address, folder / address));
    }
  }
  return found;
}

int Topology::node_near(const std::string& adapter) const {
  return has_several_memory_nodes() ? this->adapter(adapter).numa_node : -1;
}

// "0" or "0-1,4".
bool Topology::has_several_memory_nodes() const {
  return line_of(sysfs_ / "devices/system/node/has_memory").find_first_of("-,") !=
         std::string::npos;
}

}  // namespace farwrite::fabric
