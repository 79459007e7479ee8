// Turns gRPC over Farwrite on by itself, and calls grpc.testing.TestService: test_enable.py
// compiles it, links it against Farwrite in front of gRPC or behind it, and runs it.
//
//   enabling_client PORT
//
// Writes what Enable() said. In C's interface of gRPC, which compiles in a second.
#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <unistd.h>

#include <iostream>
#include <string>

#include "farwrite/grpc.h"

namespace {

constexpr int kCalls = 50;
constexpr int kSeconds = 20;

gpr_timespec deadline() {
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_seconds(kSeconds, GPR_TIMESPAN));
}

// A call without arguments; whether it succeeded.
bool call(grpc_channel* channel, grpc_completion_queue* queue) {
  grpc_call* const call =
      grpc_channel_create_call(channel, nullptr, GRPC_PROPAGATE_DEFAULTS, queue,
                               grpc_slice_from_static_string("/grpc.testing.TestService/EmptyCall"),
                               nullptr, deadline(), nullptr);
  grpc_metadata_array initial;
  grpc_metadata_array trailing;
  grpc_metadata_array_init(&initial);
  grpc_metadata_array_init(&trailing);
  grpc_byte_buffer* const request = grpc_raw_byte_buffer_create(nullptr, 0);
  grpc_byte_buffer* response = nullptr;
  grpc_status_code status = GRPC_STATUS_UNKNOWN;
  grpc_slice details = grpc_empty_slice();
  grpc_op ops[6] = {};
  ops[0].op = GRPC_OP_SEND_INITIAL_METADATA;
  ops[1].op = GRPC_OP_SEND_MESSAGE;
  ops[1].data.send_message.send_message = request;
  ops[2].op = GRPC_OP_SEND_CLOSE_FROM_CLIENT;
  ops[3].op = GRPC_OP_RECV_INITIAL_METADATA;
  ops[3].data.recv_initial_metadata.recv_initial_metadata = &initial;
  ops[4].op = GRPC_OP_RECV_MESSAGE;
  ops[4].data.recv_message.recv_message = &response;
  ops[5].op = GRPC_OP_RECV_STATUS_ON_CLIENT;
  ops[5].data.recv_status_on_client.trailing_metadata = &trailing;
  ops[5].data.recv_status_on_client.status = &status;
  ops[5].data.recv_status_on_client.status_details = &details;
  if (grpc_call_start_batch(call, ops, 6, nullptr, nullptr) != GRPC_CALL_OK) return false;
  grpc_completion_queue_next(queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), nullptr);
  grpc_slice_unref(details);
  grpc_byte_buffer_destroy(request);
  if (response != nullptr) grpc_byte_buffer_destroy(response);
  grpc_metadata_array_destroy(&initial);
  grpc_metadata_array_destroy(&trailing);
  grpc_call_unref(call);
  return status == GRPC_STATUS_OK;
}

}  // namespace

int main(int, char** argv) {
  std::cout << "Enable: " << farwrite::grpc::Enable() << std::endl;
  grpc_init();
  grpc_completion_queue* const queue = grpc_completion_queue_create_for_next(nullptr);
  grpc_channel_credentials* const credentials = grpc_insecure_credentials_create();
  const std::string target = std::string("127.0.0.1:") + argv[1];
  grpc_channel* const channel = grpc_channel_create(target.c_str(), credentials, nullptr);
  int failed = 0;
  for (int i = 0; i < kCalls; ++i) {
    if (!call(channel, queue)) ++failed;
    ::usleep(5000);  // the connection moves meanwhile
  }
  grpc_channel_destroy(channel);
  grpc_channel_credentials_release(credentials);
  grpc_completion_queue_shutdown(queue);
  while (grpc_completion_queue_next(queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), nullptr).type !=
         GRPC_QUEUE_SHUTDOWN) {
  }
  grpc_completion_queue_destroy(queue);
  grpc_shutdown_blocking();
  return failed == 0 ? 0 : 1;
}
