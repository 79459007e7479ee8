// Slices of memory that no kernel may write into.
//
// A kernel takes its input's memory for its output if nothing else refers to it and the input's
// buffer says that it owns the memory. TensorFlow's buffer of a slice always says so, whatever the
// buffer says that it is a slice of: relu(received[0]) would write into a peer's memory, which is
// mapped read-only, and end the process.
#pragma once

#include "absl/status/status.h"

namespace farwrite::plugin {

// From now on a slice owns its memory only if the buffer does that it is a slice of. TensorFlow has
// no place for that, so this replaces one function of its class in this process; nothing is changed
// if TensorFlow does so itself. An error: the plug-in must not be used.
absl::Status make_slices_respect_owners();

}  // namespace farwrite::plugin
