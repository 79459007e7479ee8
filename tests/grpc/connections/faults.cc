// Connections whose other side dies, stops, or takes nothing.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "client.h"

namespace farwrite::connections {
namespace {

using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

// Near the limit that gRPC has for a message.
constexpr size_t kHuge = 4'000'000;
constexpr int kMostInFlight = 64;
constexpr seconds kQuiet{3};
constexpr seconds kAtLeast{10};

grpc::testing::StreamingOutputCallRequest huge_message() {
  grpc::testing::StreamingOutputCallRequest request;
  request.mutable_payload()->set_body(std::string(kHuge, 'a'));
  return request;
}

}  // namespace

void be_cut_in_a_message(const Ports& ports) {
  const auto stub = grpc::testing::TestService::NewStub(open_channel(ports[0]));
  grpc::ClientContext context;
  const auto stream = stub->FullDuplexCall(&context);
  echo(*stream, kSmall);
  const auto request = huge_message();
  std::thread writer([&] {
    while (stream->Write(request)) {
    }
  });
  grpc::testing::StreamingOutputCallResponse response;
  require(stream->Read(&response), "the stream brings no message");
  announce("now: kill one of us");
  while (stream->Read(&response)) {
    require(response.payload().body() == request.payload().body(), "a message came back changed");
  }
  writer.join();
  require(stream->Finish().error_code() == grpc::StatusCode::UNAVAILABLE,
          "a killed server ended the call with another status");
}

void outlast_a_stop(const Ports& ports) {
  const auto stub = grpc::testing::TestService::NewStub(open_channel(ports[0]));
  grpc::ClientContext context;
  const auto stream = stub->FullDuplexCall(&context);
  echo(*stream, kLarge);
  announce("now: stop the server and continue it");
  const auto give_up = Clock::now() + kPatience;
  Clock::duration longest{0};
  while (longest < kAtLeast) {
    const auto begin = Clock::now();
    echo(*stream, kLarge);
    longest = std::max(longest, Clock::now() - begin);
    require(Clock::now() < give_up, "the server was not stopped");
  }
  echo(*stream, kHuge / 2);
}

// The server echoes, so it stops reading when nothing takes its answers.
void fill_a_stream(const Ports& ports) {
  const auto stub = grpc::testing::TestService::NewStub(open_channel(ports[0]));
  grpc::ClientContext context;
  const auto stream = stub->FullDuplexCall(&context);
  const auto request = huge_message();
  std::atomic<int> written{0};
  std::atomic<bool> enough{false};
  std::thread writer([&] {
    while (!enough.load() && stream->Write(request)) written.fetch_add(1);
    stream->WritesDone();
  });
  int seen = -1;
  while (seen != written.load()) {
    seen = written.load();
    require(seen < kMostInFlight, "a full stream takes more and more");
    std::this_thread::sleep_for(kQuiet);
  }
  announce("the stream is full");
  // Other calls of the same connection pass.
  call(*stub, kSmall);
  enough.store(true);
  int read = 0;
  grpc::testing::StreamingOutputCallResponse response;
  while (stream->Read(&response)) {
    require(response.payload().body() == request.payload().body(), "a message came back changed");
    ++read;
  }
  writer.join();
  const grpc::Status status = stream->Finish();
  require(status.ok(), "a full stream ended badly: " + status.error_message());
  require(read == written.load(), "messages are missing");
}

}  // namespace farwrite::connections
