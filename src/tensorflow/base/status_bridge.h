// Owners of what the C ABI hands out: statuses, and tensors in slots.
#pragma once

#include <memory>
#include <string>

#include "farwrite/c_api.h"

namespace farwrite::plugin {

struct FreeStatus {
  void operator()(fw_status* status) const { fw_status_free(status); }
};
using FwStatus = std::unique_ptr<fw_status, FreeStatus>;

inline std::string message_of(const FwStatus& status) {
  return status == nullptr ? "ok" : fw_status_message(status.get());
}

struct ReleaseLanded {
  void operator()(fw_landed* landed) const { fw_landed_release(landed); }
};
using Landed = std::unique_ptr<fw_landed, ReleaseLanded>;

}  // namespace farwrite::plugin
