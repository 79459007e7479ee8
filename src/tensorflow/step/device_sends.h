// DeviceSends: the sends of one step whose tensors lie in the memory of a device.
//
// Each is copied into host memory, and pushed when the copy is there. Copies end in any order. The
// tensors of one edge are pushed in the order in which they were sent, like those in host memory.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>

#include "core/mutex.h"

namespace farwrite::plugin {

// Thread-safe.
class DeviceSends {
 public:
  struct DueSend;
  using TurnRef = std::shared_ptr<DueSend>;

  DeviceSends() = default;
  ~DeviceSends() { clear(); }  // a line and its turns hold each other
  DeviceSends(const DeviceSends&) = delete;
  DeviceSends& operator=(const DeviceSends&) = delete;

  // One send; its turn comes after those of the edge that were added before.
  TurnRef add(const std::string& edge);
  // `push` is what to do when its turn comes: now, or in a later call of this, on whose thread it
  // then runs. Under no lock.
  void ready(const TurnRef& turn, std::function<void()> push);
  // The step is over: no push is called any more that has not begun.
  void clear();

 private:
  struct Line;
  core::Mutex mutex_{core::LockRank::kProgram};  // also of the lines and turns
  std::unordered_map<std::string, std::shared_ptr<Line>> lines_ FW_GUARDED_BY(mutex_);
};

}  // namespace farwrite::plugin
