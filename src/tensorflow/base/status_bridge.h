// Owners of what the C ABI hands out: statuses and views.
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

struct ReleaseView {
  void operator()(fw_remote* view) const { fw_remote_release(view); }
};
// What a peer lent; the lease ends with it.
using View = std::unique_ptr<fw_remote, ReleaseView>;

struct ReleaseLanded {
  void operator()(fw_landed* landed) const { fw_landed_release(landed); }
};
using Landed = std::unique_ptr<fw_landed, ReleaseLanded>;

}  // namespace farwrite::plugin
