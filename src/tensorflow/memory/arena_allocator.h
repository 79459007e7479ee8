// ArenaAllocator: TensorFlow's CPU allocator, whose large blocks lie in registered memory, so that
// they can be lent as they are (the zero-copy dataflow paper: communication and computation share
// one allocator; policy `unified`). Policy `traced` puts only those blocks there whose allocation
// sites are known to make tensors that are sent; see allocation_sites.h.
//
// Before the first server opens a device, in a forked child, and when registered memory is full,
// every block comes from malloc, and a tensor in it is staged by one copy if it is sent. What the
// parent had in registered memory, a forked child reads (docs/explanation/fork.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "farwrite/c_api.h"

namespace farwrite::plugin {

class ArenaAllocator {
 public:
  // Smaller blocks ride inside the notification and need no registered memory, in bytes.
  static constexpr std::uint64_t kThreshold = 8192;

  // Becomes the process' allocator, unless told not to be or it is too late.
  static void install();
  // Large blocks come from this device from now on.
  static void use(fw_device* device);
  // Whether the policy is `traced`, and there is a device.
  static bool traced();
  // "unified", "traced", "off" or "late", and why not unified.
  static std::string policy();
  static std::string reason();
  // Why a tensor that is sent may lie outside registered memory all the same.
  static std::string why_outside();
};

}  // namespace farwrite::plugin
