// The host that this process runs on.
#pragma once

#include <string>

namespace farwrite::grpc {

// The same for all processes of a host, and another one after each start of it.
const std::string& host_identity();

}  // namespace farwrite::grpc
