// A channel's operations as events of a trace (core/trace.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/completion.h"
#include "farwrite/options.h"

namespace farwrite::device {

struct TracedOperation {
  std::string_view name;  // a literal
  std::uint64_t posted_ns = 0;
  std::uint64_t bytes = 0;
  std::uint32_t lane = 0;
  std::uint32_t tag = 0;
};

// An event from `posted_ns` until `completion` is done: now, or later, by whichever thread ends it.
// Only while tracing is on: posted_ns is trace_clock().
void trace_operation(const TracedOperation& operation, const std::string& peer, FabricKind fabric,
                     const Completion& completion);

}  // namespace farwrite::device
