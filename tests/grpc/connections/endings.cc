// Connections that end: by a silent peer, by GOAWAY, by a shutdown, by a server that is killed.
#include <chrono>
#include <set>
#include <thread>

#include "client.h"

namespace farwrite::connections {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

constexpr size_t kConnections = 4;

}  // namespace

void keep_alive(const Ports& ports) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 200);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 3000);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  const auto stub = grpc::testing::TestService::NewStub(open_channel(ports[0], arguments));
  grpc::ClientContext context;
  const auto stream = stub->FullDuplexCall(&context);
  echo(*stream, kSmall);
  std::this_thread::sleep_for(seconds(1));  // several pings, which must not harm the stream
  echo(*stream, kLarge);
  announce("now: stop the server");
  grpc::testing::StreamingOutputCallResponse response;
  require(!stream->Read(&response), "a stopped server sent a message");
  const grpc::Status status = stream->Finish();
  require(status.error_code() == grpc::StatusCode::UNAVAILABLE,
          "keepalive ended the call with another status: " + status.error_message());
  require(context.debug_error_string().find("keepalive watchdog timeout") != std::string::npos,
          "something else than keepalive ended the call: " + context.debug_error_string());
}

void outlive_connections(const Ports& ports) {
  const auto stub = grpc::testing::TestService::NewStub(open_channel(ports[0]));
  std::set<std::string> connections;
  const auto give_up = Clock::now() + kPatience;
  while (connections.size() < kConnections) {
    require(Clock::now() < give_up, "the server does not end its connections");
    connections.insert(call(*stub, kSmall));
    std::this_thread::sleep_for(milliseconds(5));
  }
}

void finish_during_shutdown(const Ports& ports) {
  const auto channel = open_channel(ports[0]);
  const auto stub = grpc::testing::TestService::NewStub(channel);
  grpc::ClientContext context;
  const auto stream = stub->FullDuplexCall(&context);
  echo(*stream, kSmall);
  require(channel->GetState(false) == GRPC_CHANNEL_READY, "the channel is not ready");
  announce("now: shut the server down");
  require(
      channel->WaitForStateChange(GRPC_CHANNEL_READY, std::chrono::system_clock::now() + kPatience),
      "the server's GOAWAY did not reach the channel");
  for (int i = 0; i < 3; ++i) echo(*stream, kLarge);
  grpc::ClientContext late;
  grpc::testing::SimpleResponse response;
  require(stub->UnaryCall(&late, {}, &response).error_code() == grpc::StatusCode::UNAVAILABLE,
          "a server that shuts down took a new call");
  require(stream->WritesDone(), "the stream takes no end");
  const grpc::Status status = stream->Finish();
  require(status.ok(), "a running call did not survive the shutdown: " + status.error_message());
}

void reconnect(const Ports& ports) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 500);
  const auto channel = open_channel(ports[0], arguments);
  const auto stub = grpc::testing::TestService::NewStub(channel);
  channel->GetState(/*try_to_connect=*/true);
  std::this_thread::sleep_for(seconds(1));  // attempts that are refused
  announce("now: start the server");
  call(*stub, kLarge, /*wait_for_ready=*/true);
  for (const char* next : {"now: kill the server once", "now: kill the server twice"}) {
    grpc::ClientContext context;
    const auto stream = stub->FullDuplexCall(&context);
    echo(*stream, kSmall);
    announce(next);
    grpc::testing::StreamingOutputCallResponse response;
    require(!stream->Read(&response), "a killed server sent a message");
    require(stream->Finish().error_code() == grpc::StatusCode::UNAVAILABLE,
            "a killed server ended the call with another status");
    call(*stub, kLarge, /*wait_for_ready=*/true);
  }
}

}  // namespace farwrite::connections
