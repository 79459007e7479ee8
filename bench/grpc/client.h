// Calls servers: in a closed loop with a number of calls under way to each, or one call at a time
// over each of many connections. What fails ends the process.
#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fail.h"
#include "payload.h"

template <typename Message>
class Client {
 public:
  using Seconds = std::chrono::duration<double>;

  explicit Client(const farwrite::bench::Options& options)
      : options_(options), maker_({options.buffers().begin(), options.buffers().end()}) {
    if (options_.reuse()) maker_.make(0, reused_);
  }

  ~Client() {
    queue_.Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (queue_.Next(&tag, &ok)) {
    }
  }

  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Connects to all servers and makes one call to each.
  void connect(const std::vector<std::string>& addresses) {
    for (const std::string& address : addresses) {
      const auto channel = make_channel(address);
      if (!channel->WaitForConnected(std::chrono::system_clock::now() + kConnectTime)) {
        fail("cannot connect to " + address + " within 20 s");
      }
      const auto stub = std::make_shared<Stub>(channel);
      const std::size_t first = slots_.size();
      for (unsigned number = 0; number < std::max(1U, options_.outstanding()); ++number) {
        slots_.push_back(std::make_unique<Call>(Call{"a call to " + address, stub}));
      }
      start(*slots_[first]);
    }
    settle();
  }

  // Makes calls to all servers, first for `warm_up` unmeasured.
  //
  // The time of a call begins when its payload is made, and ends when the whole reply is read.
  farwrite::bench::Measured measure(Seconds warm_up, Seconds length) {
    std::vector<double> microseconds;
    const auto warm = Clock::now() + std::chrono::duration_cast<Clock::duration>(warm_up);
    Clock::time_point first{};
    Clock::time_point last{};
    for (const auto& slot : slots_) start(*slot);
    while (true) {
      Call& call = await();
      // The time is measured from the end of one call to the end of another.
      if (first == Clock::time_point{}) {
        if (call.ended >= warm) first = call.ended;
      } else {
        last = call.ended;
        microseconds.push_back(Microseconds(call.ended - call.started).count());
        if (last - first >= length) break;
      }
      start(call);
    }
    settle();
    farwrite::bench::Measured measured;
    measured.set_calls(static_cast<double>(microseconds.size()));
    measured.set_seconds(Seconds(last - first).count());
    measured.set_p50_us(quantile(microseconds, 0.5));
    measured.set_p99_us(quantile(microseconds, 0.99));
    return measured;
  }

  // Opens connections one after the other and keeps them, each with one call.
  //
  // The time of a connection begins before its channel is made, and ends when the whole reply to
  // its first call is read. Between two connections gRPC gets time for what is left of the first.
  farwrite::bench::Opened open(const std::string& address, std::size_t count) {
    farwrite::bench::Opened opened;
    for (std::size_t number = 0; number < count; ++number) {
      const Clock::time_point begun = Clock::now();
      kept_.push_back(std::make_shared<Stub>(make_channel(address)));
      call_over(kept_.back());
      opened.add_microseconds(Microseconds(Clock::now() - begun).count());
      // Nothing is under way, so this only lets gRPC work.
      void* tag = nullptr;
      bool ok = false;
      queue_.AsyncNext(&tag, &ok, std::chrono::system_clock::now() + kPause);
    }
    return opened;
  }

  // Makes a call over every connection that `open` keeps.
  void call_kept() {
    for (const auto& stub : kept_) call_over(stub);
  }

  // Calls made so far, with those unmeasured.
  std::uint64_t calls() const { return calls_; }

 private:
  using Clock = std::chrono::steady_clock;
  using Microseconds = std::chrono::duration<double, std::micro>;
  using Stub = grpc::TemplatedGenericStub<Message, Message>;

  static constexpr char kMethod[] = "/farwrite.bench.Payloads/Exchange";
  static constexpr std::chrono::seconds kConnectTime{20};
  // The longest that any call may take.
  static constexpr std::chrono::seconds kCallTime{30};
  // Enough for what gRPC does behind the first reply: acknowledgements, and an upgrade.
  static constexpr std::chrono::milliseconds kPause{2};

  struct Call {
    std::string what;
    std::shared_ptr<Stub> stub;
    // Whether the call waits for its connection.
    bool connects = false;
    std::unique_ptr<grpc::ClientContext> context = nullptr;
    std::unique_ptr<grpc::ClientAsyncResponseReader<Message>> reader = nullptr;
    Message request = {};
    Message reply = {};
    grpc::Status status = {};
    std::uint8_t number = 0;
    Clock::time_point started = {};
    Clock::time_point ended = {};
  };

  std::shared_ptr<grpc::Channel> make_channel(const std::string& address) const {
    grpc::ChannelArguments arguments;
    for (const auto& [name, value] : options_.arguments()) arguments.SetInt(name, value);
    // A connection for each channel, whatever other channels of the process have.
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
  }

  void start(Call& call) {
    call.number = options_.reuse() ? 0 : static_cast<std::uint8_t>(calls_);
    ++calls_;
    ++under_way_;
    call.reader.reset();
    call.context = std::make_unique<grpc::ClientContext>();
    call.context->set_deadline(std::chrono::system_clock::now() + kCallTime);
    call.context->set_wait_for_ready(call.connects);
    call.reply = Message();
    if (!options_.reuse()) {
      call.request = Message();
      maker_.make(call.number, call.request);
    }
    call.started = Clock::now();
    call.reader = call.stub->PrepareUnaryCall(call.context.get(), kMethod,
                                              options_.reuse() ? reused_ : call.request, &queue_);
    call.reader->StartCall();
    call.reader->Finish(&call.reply, &call.status, &call);
  }

  // Waits for the end of any call, and checks its reply.
  Call& await() {
    void* tag = nullptr;
    bool ok = false;
    if (!queue_.Next(&tag, &ok)) fail("gRPC closed the completion queue");
    Call& call = *static_cast<Call*>(tag);
    --under_way_;
    if (!call.status.ok()) {
      fail(call.what + " failed with status " + std::to_string(call.status.error_code()) + ": " +
           call.status.error_message());
    }
    const bool is_right = options_.acknowledge()
                              ? is_empty(call.reply)
                              : read_payload(call.reply, maker_.bytes()) == call.number;
    if (!is_right) fail(call.what + " has a damaged reply");
    call.ended = Clock::now();
    return call;
  }

  // Waits for all calls under way.
  void settle() {
    while (under_way_ > 0) await();
  }

  void call_over(const std::shared_ptr<Stub>& stub) {
    Call call{"a call over its own connection", stub, true};
    start(call);
    await();
  }

  static double quantile(std::vector<double>& values, double share) {
    const auto at = values.begin() + std::lround(share * static_cast<double>(values.size() - 1));
    std::nth_element(values.begin(), at, values.end());
    return *at;
  }

  const farwrite::bench::Options options_;
  const PayloadMaker maker_;
  Message reused_;
  grpc::CompletionQueue queue_;
  std::vector<std::unique_ptr<Call>> slots_;
  std::vector<std::shared_ptr<Stub>> kept_;
  std::uint64_t calls_ = 0;
  std::size_t under_way_ = 0;
};
