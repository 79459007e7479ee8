// Lets connections live and end in the ways that gRPC knows, and checks what a program sees of it.
//
//   connection_client CASE PORT...
//
// Ends with status 0 if the case holds. A line "now: ..." asks the test to do something to the
// server. The case obey makes the calls that lines of its input order (kept_client.cc).
#include "client.h"

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <map>

namespace farwrite::connections {
namespace {

// Differs from place to place, so that a shifted copy is seen.
std::string pattern(size_t bytes) {
  std::string made(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i) made[i] = static_cast<char>(i * 31 + i / 251);
  return made;
}

}  // namespace

void require(bool holds, const std::string& what) {
  if (holds) return;
  std::cout << "failed: " << what << std::endl;
  std::_Exit(1);
}

void announce(const std::string& line) { std::cout << line << std::endl; }

std::shared_ptr<grpc::Channel> open_channel(const std::string& port,
                                            grpc::ChannelArguments arguments) {
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel("127.0.0.1:" + port, grpc::InsecureChannelCredentials(),
                                   arguments);
}

std::string call(Stub& stub, size_t bytes, bool wait_for_ready) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kPatience);
  context.set_wait_for_ready(wait_for_ready);
  grpc::testing::SimpleRequest request;
  request.mutable_payload()->set_body(pattern(bytes));
  grpc::testing::SimpleResponse response;
  const grpc::Status status = stub.UnaryCall(&context, request, &response);
  require(status.ok(), "a call failed: " + status.error_message());
  require(response.payload().body() == request.payload().body(), "a call came back changed");
  return response.username();
}

void echo(Stream& stream, size_t bytes) {
  grpc::testing::StreamingOutputCallRequest request;
  request.mutable_payload()->set_body(pattern(bytes));
  grpc::testing::StreamingOutputCallResponse response;
  require(stream.Write(request), "the stream takes no message");
  require(stream.Read(&response), "the stream brings no message");
  require(response.payload().body() == request.payload().body(), "a message came back changed");
}

}  // namespace farwrite::connections

int main(int argc, char** argv) {
  using namespace farwrite::connections;
  const std::map<std::string, void (*)(const Ports&)> cases = {
      {"check_health", check_health},
      {"list_services", list_services},
      {"keep_alive", keep_alive},
      {"outlive_connections", outlive_connections},
      {"finish_during_shutdown", finish_during_shutdown},
      {"reconnect", reconnect},
      {"call_once", call_once},
      {"fork_with_a_channel", fork_with_a_channel},
      {"fork_before_the_first_call", fork_before_the_first_call},
      {"open_many_channels", open_many_channels},
      {"be_cut_in_a_message", be_cut_in_a_message},
      {"outlast_a_stop", outlast_a_stop},
      {"fill_a_stream", fill_a_stream},
      {"keep_messages_down", keep_messages_down},
      {"keep_messages_up", keep_messages_up},
      {"keep_messages_both_ways", keep_messages_both_ways},
      {"send_static_messages", send_static_messages},
      {"obey", obey},
  };
  const auto found = argc < 3 ? cases.end() : cases.find(argv[1]);
  if (found == cases.end()) {
    std::cerr << "usage: connection_client CASE PORT...; the cases are\n";
    for (const auto& known : cases) std::cerr << "  " << known.first << "\n";
    return 2;
  }
  found->second(Ports(argv + 2, argv + argc));
  return 0;
}
