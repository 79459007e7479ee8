// What the plug-in relies on in TensorFlow and libfarwrite, checked before anything is registered.
#pragma once

#include "absl/status/status.h"

namespace farwrite::plugin {

// kFailedPrecondition says what differs, and what to do.
absl::Status check_abi();

}  // namespace farwrite::plugin
