// SpareFd: a descriptor kept back, to turn a connection away when there is none left to take it.
#pragma once

#include <fcntl.h>
#include <sys/socket.h>

#include "core/unique_fd.h"

namespace farwrite::core {

// accept(2) fails without a free descriptor, but the connection stays in the queue and the listener
// readable, so an event loop would spin. Thread-compatible.
class SpareFd {
 public:
  SpareFd() { reserve(); }
  bool held() const { return spare_.valid(); }

  // Accepts one connection and closes it. False if the spare descriptor is gone: another thread
  // took its number meanwhile.
  bool turn_away(int listener) {
    if (!spare_.valid()) reserve();
    if (!spare_.valid()) return false;
    spare_.reset();
    UniqueFd(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC)).reset();
    reserve();
    return spare_.valid();
  }

 private:
  void reserve() { spare_.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }

  UniqueFd spare_;
};

}  // namespace farwrite::core
