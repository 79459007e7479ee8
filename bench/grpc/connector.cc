#include "connector.h"

#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <chrono>

#include "tuning.h"
#include "worker.h"

namespace {

using Clock = std::chrono::steady_clock;

// Enough for what gRPC does behind the first reply: acknowledgements, and an upgrade.
constexpr std::chrono::milliseconds kPause(2);

}  // namespace

template <typename Message>
Connector<Message>::Connector(const Options& options)
    : options_(options), maker_(options.buffers) {}

template <typename Message>
Connector<Message>::~Connector() {
  queue_.Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue_.Next(&tag, &ok)) {
  }
}

template <typename Message>
std::string Connector<Message>::open(const std::string& address, std::size_t count,
                                     std::vector<double>& microseconds) {
  for (std::size_t opened = 0; opened < count; ++opened) {
    const Clock::time_point start = Clock::now();
    stubs_.push_back(std::make_unique<Stub>(grpc::CreateCustomChannel(
        address, grpc::InsecureChannelCredentials(), channel_arguments(options_))));
    if (std::string problem = call(*stubs_.back()); !problem.empty()) return problem;
    microseconds.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
    // Nothing is under way, so this only lets gRPC work.
    void* tag = nullptr;
    bool ok = false;
    queue_.AsyncNext(&tag, &ok, std::chrono::system_clock::now() + kPause);
  }
  return "";
}

template <typename Message>
std::string Connector<Message>::call_all() {
  for (const auto& stub : stubs_) {
    if (std::string problem = call(*stub); !problem.empty()) return problem;
  }
  return "";
}

template <typename Message>
std::string Connector<Message>::call(Stub& stub) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kCallTime);
  context.set_wait_for_ready(true);
  Message request;
  Message reply;
  grpc::Status status;
  maker_.make(++number_, request);
  const auto reader = stub.PrepareUnaryCall(&context, kMethod, request, &queue_);
  reader->StartCall();
  reader->Finish(&reply, &status, this);
  void* tag = nullptr;
  bool ok = false;
  if (!queue_.Next(&tag, &ok)) return "gRPC closed the completion queue";
  const std::string problem = problem_of(options_, maker_.bytes(), number_, status, reply);
  return problem.empty() ? "" : "a call over its own connection " + problem;
}

template class Connector<Serialized>;
template class Connector<Plain>;
