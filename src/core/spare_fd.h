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

  // Accepts one connection, calls `tell_why` with its non-blocking socket, and closes it. With -1
  // if there is none. False if the spare descriptor is gone: another thread took its number
  // meanwhile.
  template <typename TellWhy>
  bool turn_away(int listener, const TellWhy& tell_why) {
    if (!spare_.valid()) reserve();
    const bool held = spare_.valid();
    spare_.reset();
    {
      constexpr int kFlags = SOCK_CLOEXEC | SOCK_NONBLOCK;
      const UniqueFd socket(held ? ::accept4(listener, nullptr, nullptr, kFlags) : -1);
      tell_why(socket.get());
    }
    if (held) reserve();
    return spare_.valid();
  }

 private:
  void reserve() { spare_.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }

  UniqueFd spare_;
};

}  // namespace farwrite::core
