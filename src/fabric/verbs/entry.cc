// The verbs fabric's door (fabric/verbs.h), in a build that has it.
#include <algorithm>
#include <utility>

#include "fabric/verbs.h"
#include "fabric/verbs/adapter.h"
#include "fabric/verbs/device_choice.h"
#include "fabric/verbs/verbs_fabric.h"

namespace farwrite::fabric {
namespace {

verbs::FabricOptions fabric_options(const VerbsOptions& user) {
  verbs::FabricOptions options;
  static_cast<VerbsOptions&>(options) = user;
  return options;
}

}  // namespace

Result<std::unique_ptr<Fabric>> make_verbs_fabric(core::EventLoop& loop,
                                                  const DeviceOptions& device) {
  verbs::FabricOptions options = fabric_options(device.verbs);
  options.listen_host = device.listen.host;
  options.completion_queues = device.pollers;
  // Every segment is registered with every fabric. Where others would do, verbs that cannot
  // register one would keep them from getting any; on its own its errors tell.
  if (device.fabrics.size() > 1) {
    options.must_register = std::max(device.segment_bytes, device.receive_segment_bytes);
  }
  return verbs::VerbsFabric::create(loop, options);
}

Result<std::vector<std::string>> describe_verbs(const VerbsOptions& user) {
  const verbs::FabricOptions options = fabric_options(user);
  verbs::VerbsLibrary* library = options.library;
  if (library == nullptr) {
    auto opened = verbs::VerbsLibrary::open();
    if (!opened.ok()) return opened.status();
    library = *opened;
  }
  int count = 0;
  ibv_context** const devices = library->get_devices(&count);
  auto addresses = verbs::choose_addresses(*library, options);
  std::vector<std::string> lines;
  if (addresses.ok()) {
    for (const verbs::RdmaAddress& address : *addresses) lines.push_back(verbs::describe(address));
  }
  if (devices != nullptr) library->free_devices(devices);
  if (!addresses.ok()) return addresses.status();
  return lines;
}

}  // namespace farwrite::fabric
