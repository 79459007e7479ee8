// TcpWindow: a peer's region, as the tcp fabric names it. The peer checks every access.
#pragma once

#include <cstdint>

#include "fabric/fabric.h"

namespace farwrite::fabric::tcp {

struct TcpWindow final : RemoteWindow {
  std::uint64_t key = 0;
  std::uint64_t base = 0;  // of the region, in its segment
};

}  // namespace farwrite::fabric::tcp
