// A client that forks, and one with many channels.
#include <sys/wait.h>
#include <unistd.h>

#include <mutex>
#include <set>
#include <thread>

#include "client.h"

namespace farwrite::connections {
namespace {

constexpr size_t kMedium = 10'000;
constexpr int kCalls = 20;
constexpr size_t kChannelsPerServer = 8;
constexpr int kHighestDescriptor = 1024;

void require_good_end(pid_t child, const std::string& which) {
  int status = 0;
  require(waitpid(child, &status, 0) == child, "waitpid failed");
  require(WIFEXITED(status) && WEXITSTATUS(status) == 0, which + " ended badly");
}

}  // namespace

void call_once(const Ports& ports) {
  const auto stub = grpc::testing::TestService::NewStub(open_channel(ports[0]));
  call(*stub, kLarge);
}

// gRPC's threads are not in a child, so a child may only run another program, or close what it
// inherited. Neither may harm the connection, which the parent goes on using meanwhile.
void fork_with_a_channel(const Ports& ports) {
  const auto stub = grpc::testing::TestService::NewStub(open_channel(ports[0]));
  const std::string connection = call(*stub, kLarge);
  const pid_t runs_a_program = fork();
  require(runs_a_program >= 0, "fork failed");
  if (runs_a_program == 0) {
    execl("/proc/self/exe", "connection_client", "call_once", ports[0].c_str(), nullptr);
    _exit(1);
  }
  const pid_t closes_everything = fork();
  require(closes_everything >= 0, "fork failed");
  if (closes_everything == 0) {
    for (int descriptor = 3; descriptor < kHighestDescriptor; ++descriptor) close(descriptor);
    _exit(0);
  }
  for (int i = 0; i < kCalls; ++i) {
    require(call(*stub, kMedium) == connection, "the parent lost its connection");
  }
  require_good_end(closes_everything, "the child that closes everything");
  require_good_end(runs_a_program, "the child that runs a program");
  require(call(*stub, kLarge) == connection, "the parent lost its connection");
}

void fork_before_the_first_call(const Ports& ports) {
  const pid_t child = fork();
  require(child >= 0, "fork failed");
  const auto stub = grpc::testing::TestService::NewStub(open_channel(ports[0]));
  for (int i = 0; i < kCalls; ++i) call(*stub, kMedium);
  if (child != 0) require_good_end(child, "the child");
}

void open_many_channels(const Ports& ports) {
  std::mutex guard;
  std::set<std::string> connections;
  std::vector<std::thread> callers;
  for (const std::string& port : ports) {
    for (size_t i = 0; i < kChannelsPerServer; ++i) {
      callers.emplace_back([&guard, &connections, port] {
        const auto stub = grpc::testing::TestService::NewStub(open_channel(port));
        const std::string connection = call(*stub, kLarge);
        for (int calls = 1; calls < kCalls; ++calls) {
          require(call(*stub, kMedium) == connection, "a channel changed its connection");
        }
        const std::lock_guard<std::mutex> lock(guard);
        connections.insert(port + " " + connection);
      });
    }
  }
  for (std::thread& caller : callers) caller.join();
  require(connections.size() == ports.size() * kChannelsPerServer, "channels share connections");
}

}  // namespace farwrite::connections
