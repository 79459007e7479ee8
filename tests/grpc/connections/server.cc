// A server with health checking and reflection, whose connections end as the tests ask.
//
//   connection_server [--max_connection_age_ms=N] [--fixed_windows] PORT...
//
// Runs one gRPC server per port, all in this process. With an age, it sends GOAWAY on a connection
// of that age. Fixed windows of HTTP/2 do not grow with the bandwidth. SIGINT shuts down in good
// order: GOAWAY, and running calls may finish. Unary calls answer with the payload, and with the
// client's address as user name; streams echo payloads, or bring and take messages to be kept.
#include <grpcpp/ext/health_check_service_server_builder_option.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <csignal>
#include <deque>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "kept_messages.h"
#include "src/proto/grpc/testing/test.grpc.pb.h"

namespace {

constexpr char kAgeFlag[] = "--max_connection_age_ms=";
constexpr char kWindowsFlag[] = "--fixed_windows";
constexpr std::chrono::seconds kTimeToFinish{20};

class Echo final : public grpc::testing::TestService::Service {
 public:
  grpc::Status UnaryCall(grpc::ServerContext* context, const grpc::testing::SimpleRequest* request,
                         grpc::testing::SimpleResponse* response) override {
    *response->mutable_payload() = request->payload();
    response->set_username(context->peer());
    return grpc::Status::OK;
  }

  grpc::Status FullDuplexCall(
      grpc::ServerContext*,
      grpc::ServerReaderWriter<grpc::testing::StreamingOutputCallResponse,
                               grpc::testing::StreamingOutputCallRequest>* stream) override {
    grpc::testing::StreamingOutputCallRequest request;
    while (stream->Read(&request)) {
      grpc::testing::StreamingOutputCallResponse response;
      *response.mutable_payload() = request.payload();
      if (!stream->Write(response)) {
        return grpc::Status(grpc::StatusCode::UNAVAILABLE, "the client takes no message");
      }
    }
    return grpc::Status::OK;
  }
};

std::unique_ptr<grpc::Server> start(const std::string& port, int max_age_ms, bool fixed_windows,
                                    Echo& service, grpc::CallbackGenericService& kept_messages) {
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:" + port, grpc::InsecureServerCredentials());
  builder.RegisterService(&service);
  builder.RegisterCallbackGenericService(&kept_messages);
  // Or the port could be shared with a server that a test believes dead.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  // Clients may send pings as often as the test of keepalive does.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 50);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  if (fixed_windows) builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  if (max_age_ms > 0) builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS, max_age_ms);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  // gRPC's health service knows a service only once it has a state.
  if (server != nullptr) {
    server->GetHealthCheckService()->SetServingStatus(
        grpc::testing::TestService::service_full_name(), true);
  }
  return server;
}

}  // namespace

int main(int argc, char** argv) {
  // Before gRPC starts its threads, which inherit the mask.
  sigset_t interrupt;
  sigemptyset(&interrupt);
  sigaddset(&interrupt, SIGINT);
  pthread_sigmask(SIG_BLOCK, &interrupt, nullptr);

  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  Echo service;
  std::deque<farwrite::connections::KeptMessagesService> kept_messages;  // each is of one server
  std::vector<std::unique_ptr<grpc::Server>> servers;
  int max_age_ms = 0;
  bool fixed_windows = false;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument.rfind(kAgeFlag, 0) == 0) {
      max_age_ms = std::stoi(argument.substr(sizeof(kAgeFlag) - 1));
      continue;
    }
    if (argument == kWindowsFlag) {
      fixed_windows = true;
      continue;
    }
    servers.push_back(
        start(argument, max_age_ms, fixed_windows, service, kept_messages.emplace_back()));
    if (servers.back() == nullptr) {
      std::cerr << "connection_server: cannot listen on 127.0.0.1:" << argument
                << ": the port is taken; name another" << std::endl;
      return 1;
    }
  }
  int signal = 0;
  sigwait(&interrupt, &signal);
  for (const auto& server : servers) {
    server->Shutdown(std::chrono::system_clock::now() + kTimeToFinish);
  }
  return 0;
}
