// Options: what the environment sets for the plug-in. Each variable has a row in the core's table
// (src/core/option_table.cc) with its words and its default; the C ABI reads it. The options of the
// plug-in's device are read by fw_device_open().
#pragma once

#include <string_view>

#include "absl/status/status.h"

namespace farwrite::plugin {

struct Options {
  std::string_view allocation;  // "unified", "traced" or "off"; see memory/arena_allocator.h
  std::string_view tracing;     // "auto", or "always": tracing never ends
  bool control = true;          // whether its calls of every step go over Farwrite
  bool landing = true;          // whether this process pushes tensors into slots
};

// kInvalidArgument names the variable that cannot be read, and what it may be.
const absl::Status& options_status();
// Read at the first call. Valid if options_status() is ok.
const Options& options();

}  // namespace farwrite::plugin
