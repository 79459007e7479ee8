// Serves Exchange until it is destroyed.
#pragma once

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "fail.h"
#include "payload.h"

template <typename Message>
class Server {
 public:
  // Starts to listen; the process ends if it cannot.
  explicit Server(const farwrite::bench::Options& options) : options_(options) {
    for (const std::size_t size : options.buffers()) payload_bytes_ += size;
    PayloadMaker({}).make(0, acknowledgement_);
    grpc::ServerBuilder builder;
    for (const auto& [name, value] : options.arguments()) builder.AddChannelArgument(name, value);
    int port = 0;
    builder.AddListeningPort(options.listen(), grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&service_);
    for (unsigned number = 0; number < std::max(1U, options.server_threads()); ++number) {
      queues_.push_back(builder.AddCompletionQueue());
    }
    server_ = builder.BuildAndStart();
    if (server_ == nullptr || port == 0) fail("cannot listen at " + options.listen());
    for (const auto& queue : queues_) threads_.emplace_back([this, &queue] { serve(*queue); });
    address_ = options.listen();
    if (!address_.starts_with("unix:")) {
      address_.replace(address_.rfind(':') + 1, std::string::npos, std::to_string(port));
    }
  }

  ~Server() {
    server_->Shutdown(std::chrono::system_clock::now() + kShutdownTime);
    {
      const std::lock_guard lock(stopping_mutex_);
      is_stopping_ = true;
    }
    for (const auto& queue : queues_) queue->Shutdown();
    for (std::thread& thread : threads_) thread.join();
  }

  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Where its clients connect.
  const std::string& address() const { return address_; }

  // Requests whose payload was not the expected one.
  std::uint64_t wrong() const { return wrong_.load(std::memory_order_relaxed); }

 private:
  using Payloads = farwrite::bench::Payloads;
  using Service = std::conditional_t<std::is_same_v<Message, Plain>,
                                     Payloads::WithRawMethod_Exchange<Payloads::Service>,
                                     Payloads::AsyncService>;

  // Requests that a queue can take before one of them has its reply.
  static constexpr int kCallsOfAQueue = 32;
  static constexpr std::chrono::seconds kShutdownTime{2};

  // One request after the other.
  class Call {
   public:
    Call(Server& server, grpc::ServerCompletionQueue& queue) : server_(server), queue_(queue) {
      accept();
    }

    // The next step: a request came, or its reply is on its way.
    void proceed() {
      if (is_replying_) {
        accept();
      } else {
        reply();
      }
    }

   private:
    void accept() {
      is_replying_ = false;
      responder_.reset();
      context_ = std::make_unique<grpc::ServerContext>();
      responder_ = std::make_unique<grpc::ServerAsyncResponseWriter<Message>>(context_.get());
      request_ = Message();
      // A queue that is shut down takes no more requests: gRPC aborts.
      const std::lock_guard lock(server_.stopping_mutex_);
      if (server_.is_stopping_) return;
      server_.service_.RequestExchange(context_.get(), &request_, responder_.get(), &queue_,
                                       &queue_, this);
    }

    void reply() {
      is_replying_ = true;
      if (!server_.options_.unread() && !read_payload(request_, server_.payload_bytes_)) {
        server_.wrong_.fetch_add(1, std::memory_order_relaxed);
        responder_->FinishWithError({grpc::StatusCode::DATA_LOSS, "the request is damaged"}, this);
      } else if (server_.options_.acknowledge()) {
        responder_->Finish(server_.acknowledgement_, grpc::Status::OK, this);
      } else {
        responder_->Finish(request_, grpc::Status::OK, this);
      }
    }

    Server& server_;
    grpc::ServerCompletionQueue& queue_;
    std::unique_ptr<grpc::ServerContext> context_;
    std::unique_ptr<grpc::ServerAsyncResponseWriter<Message>> responder_;
    Message request_;
    bool is_replying_ = false;
  };

  void serve(grpc::ServerCompletionQueue& queue) {
    std::vector<std::unique_ptr<Call>> calls;
    for (int number = 0; number < kCallsOfAQueue; ++number) {
      calls.push_back(std::make_unique<Call>(*this, queue));
    }
    void* tag = nullptr;
    bool ok = false;
    // A step that is not ok belongs to a shutdown or to a client that is gone.
    while (queue.Next(&tag, &ok)) {
      if (ok) static_cast<Call*>(tag)->proceed();
    }
  }

  const farwrite::bench::Options options_;
  std::size_t payload_bytes_ = 0;
  Message acknowledgement_;
  std::string address_;
  Service service_;
  std::vector<std::unique_ptr<grpc::ServerCompletionQueue>> queues_;
  std::unique_ptr<grpc::Server> server_;
  std::vector<std::thread> threads_;
  std::mutex stopping_mutex_;
  bool is_stopping_ = false;
  std::atomic<std::uint64_t> wrong_{0};
};
