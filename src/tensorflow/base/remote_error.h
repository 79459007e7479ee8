// Which task an error is about, in the words by which TensorFlow's recovery knows it.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace farwrite::plugin {

// ClusterCoordinator tells the end of a parameter server from that of a worker by "GRPC error
// information from remote target /job:ps/...", which stock adds to what RPCs fail with, and by the
// codes Unavailable and Aborted. Adds it to such an error that lacks it; others stay as they are.
absl::Status remote_error(const std::string& task, const absl::Status& status);
// The same for the end of a call to the task, whatever its code: of a replaced one, TensorFlow
// knows InvalidArgument by these words.
absl::Status called_error(const std::string& task, const absl::Status& status);

}  // namespace farwrite::plugin
