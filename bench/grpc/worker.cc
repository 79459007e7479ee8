#include "worker.h"

#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <algorithm>
#include <cmath>

#include "tuning.h"

namespace {

constexpr std::chrono::seconds kConnectTime(20);

double quantile(std::vector<double>& values, double share) {
  const auto at = values.begin() + std::lround(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

}  // namespace

template <typename Message>
struct Worker<Message>::Call {
  std::string address;
  std::shared_ptr<grpc::TemplatedGenericStub<Message, Message>> stub;
  std::unique_ptr<grpc::ClientContext> context;
  std::unique_ptr<grpc::ClientAsyncResponseReader<Message>> reader;
  Message request;
  Message reply;
  grpc::Status status;
  std::uint8_t number = 0;
  Clock::time_point started;
  Clock::time_point ended;
};

template <typename Message>
Worker<Message>::Worker(const Options& options) : options_(options), maker_(options.buffers) {
  if (options_.reuse) maker_.make(0, reused_);
}

template <typename Message>
Worker<Message>::~Worker() {
  for (const auto& slot : slots_) {
    if (slot->context != nullptr) slot->context->TryCancel();
  }
  queue_.Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue_.Next(&tag, &ok)) {
  }
}

template <typename Message>
std::string Worker<Message>::connect(const std::vector<std::string>& addresses) {
  for (const std::string& address : addresses) {
    const auto channel = grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(),
                                                   channel_arguments(options_));
    if (!channel->WaitForConnected(std::chrono::system_clock::now() + kConnectTime)) {
      return "cannot connect to " + address + " within 20 s";
    }
    const auto stub = std::make_shared<grpc::TemplatedGenericStub<Message, Message>>(channel);
    for (int number = 0; number < options_.outstanding; ++number) {
      slots_.push_back(std::make_unique<Call>());
      slots_.back()->address = address;
      slots_.back()->stub = stub;
    }
  }
  for (std::size_t at = 0; at < slots_.size(); at += options_.outstanding) start(*slots_[at]);
  return settle();
}

template <typename Message>
std::string Worker<Message>::measure(std::chrono::duration<double> warm_up,
                                     std::chrono::duration<double> length, Measured& measured) {
  std::vector<double> microseconds;
  const auto warm = Clock::now() + std::chrono::duration_cast<Clock::duration>(warm_up);
  const auto whole = std::chrono::duration_cast<Clock::duration>(length);
  Clock::time_point first{};
  Clock::time_point last{};
  for (const auto& slot : slots_) start(*slot);
  while (true) {
    Call* call = nullptr;
    if (std::string problem = await(call); !problem.empty()) return problem;
    // The time is measured from the end of one call to the end of another.
    if (first == Clock::time_point{}) {
      if (call->ended >= warm) first = call->ended;
    } else {
      last = call->ended;
      microseconds.push_back(
          std::chrono::duration<double, std::micro>(call->ended - call->started).count());
      if (last - first >= whole) break;
    }
    start(*call);
  }
  if (std::string problem = settle(); !problem.empty()) return problem;
  measured.calls = microseconds.size();
  measured.seconds = std::chrono::duration<double>(last - first).count();
  measured.p50_us = quantile(microseconds, 0.5);
  measured.p99_us = quantile(microseconds, 0.99);
  return "";
}

template <typename Message>
void Worker<Message>::start(Call& call) {
  call.number = options_.reuse ? 0 : static_cast<std::uint8_t>(calls_);
  ++calls_;
  ++under_way_;
  call.reader.reset();
  call.context = std::make_unique<grpc::ClientContext>();
  call.context->set_deadline(std::chrono::system_clock::now() + kCallTime);
  call.reply = Message();
  if (!options_.reuse) {
    call.request = Message();
    maker_.make(call.number, call.request);
  }
  call.started = Clock::now();
  call.reader = call.stub->PrepareUnaryCall(call.context.get(), kMethod,
                                            options_.reuse ? reused_ : call.request, &queue_);
  call.reader->StartCall();
  call.reader->Finish(&call.reply, &call.status, &call);
}

template <typename Message>
std::string Worker<Message>::await(Call*& ended) {
  void* tag = nullptr;
  bool ok = false;
  if (!queue_.Next(&tag, &ok)) return "gRPC closed the completion queue";
  ended = static_cast<Call*>(tag);
  --under_way_;
  const std::string problem =
      problem_of(options_, maker_.bytes(), ended->number, ended->status, ended->reply);
  ended->ended = Clock::now();
  return problem.empty() ? "" : "a call to " + ended->address + " " + problem;
}

template <typename Message>
std::string Worker<Message>::settle() {
  while (under_way_ > 0) {
    Call* call = nullptr;
    if (std::string problem = await(call); !problem.empty()) return problem;
  }
  return "";
}

template class Worker<Serialized>;
template class Worker<Plain>;
