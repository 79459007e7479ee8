// RouteQuestion: what a receiver asks a sender that has not pushed for long, over the workers' own
// gRPC service as a meeting is: whether it pushes to where the receiver waits.
//
// The two sides of a route resolve it on their own, so they may differ: the sender cannot reach the
// receiver and keeps its tensors, which the receiver expects to be pushed. The question is about
// what the sender has done, so the answer is right whatever its routes have become since.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "farwrite/c_api.h"
#include "tensorflow/core/protobuf/worker.pb.h"

namespace farwrite::plugin {

struct RouteQuestion {
  std::string task;          // the receiver's, by the name that the sender knows it by
  std::uint64_t server = 0;  // incarnation of the receiver's server
  std::int64_t step = 0;
  bool collective = false;

  template <typename Wire>
  void fields(Wire& wire);
};

enum class RouteAnswer : std::uint8_t {
  kWait = 1,       // what there was for you has been pushed to you
  kKeeps = 2,      // some of it is kept for RecvTensor
  kElsewhere = 3,  // some of it was pushed to another server, by the name of your task
};

void write_question(const RouteQuestion& question, tensorflow::RecvBufRequest* request);
bool is_question(const tensorflow::RecvBufRequest& request);
absl::Status read_question(const tensorflow::RecvBufRequest& request, RouteQuestion* question);

void write_answer(RouteAnswer answer, tensorflow::RecvBufResponse* response);
absl::Status read_answer(const tensorflow::RecvBufResponse& response, RouteAnswer* answer);

}  // namespace farwrite::plugin
