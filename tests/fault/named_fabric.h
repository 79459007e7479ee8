// NamedFabric: a fabric under the name that a test hands to its child processes.
#pragma once

#include <string>

#include "fault/fixture.h"

namespace farwrite::fault {

struct NamedFabric {
  const char* name;
  FabricKind fabric;
  bool encrypt;
};

inline constexpr NamedFabric kNamedFabrics[] = {{"shm", FabricKind::kShm, false},
                                                {"tcp", FabricKind::kTcp, false},
                                                {"encrypted", FabricKind::kTcp, true}};

// quick_options() with this fabric alone, and one token for all.
inline DeviceOptions options_of(const std::string& name) {
  DeviceOptions options = quick_options();
  for (const NamedFabric& named : kNamedFabrics) {
    if (named.name != name) continue;
    options.fabrics = {named.fabric};
    options.encrypt = named.encrypt;
    options.token = "named fabric";
  }
  return options;
}

}  // namespace farwrite::fault
