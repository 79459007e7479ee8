// The error of a server that has no memory for something.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "device/device.h"
#include "farwrite/status.h"

namespace farwrite::box {

// kResourceExhausted that names the server's own limit: the device's error would name its
// send_limit. `what` needs the memory, for example "a buffer of 64 bytes".
Status memory_used_up(const Device& device, std::string_view operation, const std::string& what,
                      const std::string& or_else = "free segments");

// The same for `refused`, the device's error for `bytes` bytes; or `refused` itself if they are
// within the limit, because the machine then refused them.
Status no_memory_for(const Device& device, const Status& refused, std::string_view operation,
                     const std::string& what, std::uint64_t bytes,
                     const std::string& or_else = "free segments");

}  // namespace farwrite::box
