// Meeting: how two workers learn of each other's plug-in, over the workers' own gRPC service.
//
// It rides on RecvBuf, whose request and response have room for a transport's own fields, and which
// every worker can call by the cluster's names: no port, no service and no address of its own. A
// worker without the plug-in refuses the call at once, since no device of its has incarnation 0.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "farwrite/c_api.h"
#include "tensorflow/core/protobuf/worker.pb.h"

namespace farwrite::plugin {

struct Introduction {
  std::string task;          // "/job:worker/replica:0/task:1"
  std::uint64_t server = 0;  // incarnation of the server's first device
  fw_identity process{};
  std::string refusal;  // why there will be no channel; empty otherwise
};

void write_request(const Introduction& introduction, tensorflow::RecvBufRequest* request);
// Whether the request is a meeting; kInvalidArgument for one that cannot be read.
bool is_meeting(const tensorflow::RecvBufRequest& request);
absl::Status read_request(const tensorflow::RecvBufRequest& request, Introduction* introduction);

void write_response(const Introduction& introduction, tensorflow::RecvBufResponse* response);
absl::Status read_response(const tensorflow::RecvBufResponse& response, Introduction* introduction);

}  // namespace farwrite::plugin
