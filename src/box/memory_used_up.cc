#include "box/memory_used_up.h"

#include <algorithm>

namespace farwrite::box {
namespace {

constexpr std::uint64_t kSegmentStep = kMinMemoryLimit;  // the device's memory grows by these

}  // namespace

Status memory_used_up(const Device& device, std::string_view operation, const std::string& what,
                      const std::string& or_else) {
  return Status::error(StatusCode::kResourceExhausted, {.operation = operation},
                       "the server's memory of " + std::to_string(device.stats().send.limit) +
                           " bytes has no room for " + what,
                       "serve with more memory (farwrite box serve --memory), or " + or_else);
}

Status no_memory_for(const Device& device, const Status& refused, std::string_view operation,
                     const std::string& what, std::uint64_t bytes, const std::string& or_else) {
  const MemoryStats memory = device.stats().send;
  const std::uint64_t growth = memory.limit - std::min(memory.reserved, memory.limit);
  const bool within_limit = bytes <= growth / kSegmentStep * kSegmentStep;
  if (refused.code() == StatusCode::kResourceExhausted && !within_limit) {
    return memory_used_up(device, operation, what, or_else);
  }
  return refused;
}

}  // namespace farwrite::box
