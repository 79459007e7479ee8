// Notification: what a peer has told this side.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/region.h"

namespace farwrite {

// A notification from the peer: the tag of a write that has landed, or a short message with a tag.
struct Notification {
  std::uint32_t tag = 0;           // the number that the sender chose
  std::uint32_t lane = 0;          // the lane that it came on
  std::vector<std::byte> message;  // empty unless the peer called Channel::send() or lend()
  RemoteRegion lent = {};          // valid() if the peer called lend(); already leased
};

}  // namespace farwrite
