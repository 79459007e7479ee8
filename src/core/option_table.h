// The options that libfarwrite reads: one row each in option_table.cc. From the rows come the
// parsers of the environment and of VerbsOptions as text, the checks of DeviceOptions, the keywords
// of farwrite.Device in Python, `farwrite options` and docs/reference/options.md. Options that only
// Python or the build reads are in python/farwrite/options/table.py.
#pragma once

#include <span>
#include <string_view>

#include "core/option.h"
#include "farwrite/status.h"

namespace farwrite {

// Sets the options that `text` names:
// "device=mlx5_0,gid_index=3,relaxed_ordering=off,chunk_bytes=64M". kInvalidArgument names the
// invalid setting and its fault, and then no option is set.
Status set_verbs_options(std::string_view text, VerbsOptions& options);

}  // namespace farwrite

namespace farwrite::core {

// The keywords of farwrite.Device, in the order of the page. "verbs.port" is the field `port` of
// the keyword `verbs`, as it is of DeviceOptions.
std::span<const Option> device_options();
// Options that are no keywords: of the TensorFlow plug-in, which reads them by the C ABI, and of
// gRPC.
std::span<const Option> plugin_options();
std::span<const Option> grpc_options();

// The keyword of that name, or nullptr.
const Option* find_keyword(std::string_view name);

// Sets the field of one keyword. kInvalidArgument names it and the text.
Status set_keyword(std::string_view name, std::string_view text, DeviceOptions& options);

// Sets the fields of the options that work in `place` and whose variables are set to any text but
// the empty one. kInvalidArgument names the variable whose text is not valid.
Status read_environment(OptionPlace place, DeviceOptions& options);

// Stores the value of one variable of plugin_options() or grpc_options(); if that is not set, the
// default of its row.
Status read_variable(std::string_view variable, OptionField field);

// Whether read_variable() takes what the variable is set to, by the kind of its row. Ok for one
// without a row.
Status check_variable(std::string_view variable);

// kInvalidArgument names the first field that is out of range.
Status check_ranges(DeviceOptions options);

}  // namespace farwrite::core
