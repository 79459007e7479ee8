// NameTable: the regions published under names, to all peers or to one.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/mutex.h"
#include "device/region_state.h"
#include "farwrite/status.h"

namespace farwrite::device {

// kInvalidArgument for a name that no peer would take: 1 to kMaxNameBytes.
Status check_name(std::string_view operation, std::string_view name);

struct PublishedRegion {
  std::shared_ptr<RegionState> region;
  std::string description;
};

// Thread-safe. Keeps the regions alive.
class NameTable {
 public:
  Status publish(std::string_view name, PublishedRegion published);
  bool unpublish(std::string_view name);
  std::optional<PublishedRegion> find(std::string_view name) const;
  // "a, b, c", for errors; cut after a handful.
  std::string names() const;
  void clear();

 private:
  mutable core::Mutex mutex_{core::LockRank::kDeviceTables};
  std::map<std::string, PublishedRegion, std::less<>> regions_ FW_GUARDED_BY(mutex_);
};

}  // namespace farwrite::device
