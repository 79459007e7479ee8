#include "server.h"

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>

#include <chrono>

#include "tuning.h"

namespace {

// Requests that a queue can take before one of them has its reply.
constexpr int kCallsOfAQueue = 32;
constexpr std::chrono::seconds kShutdownTime(2);

}  // namespace

// One request after the other.
template <typename Message>
class Server<Message>::Call {
 public:
  Call(Server& server, grpc::ServerCompletionQueue& queue) : server_(server), queue_(queue) {
    accept();
  }

  // The next step: a request came, or its reply is on its way.
  void proceed() {
    if (!is_replying_) {
      is_replying_ = true;
      reply();
    } else {
      accept();
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
    server_.service_.RequestExchange(context_.get(), &request_, responder_.get(), &queue_, &queue_,
                                     this);
  }

  void reply() {
    std::uint8_t call = 0;
    const bool is_right =
        server_.options_.unread || read_payload(request_, server_.payload_bytes_, call);
    server_.served_.fetch_add(1, std::memory_order_relaxed);
    if (!is_right) {
      server_.wrong_.fetch_add(1, std::memory_order_relaxed);
      responder_->FinishWithError({grpc::StatusCode::DATA_LOSS, "the request is damaged"}, this);
    } else if (server_.options_.reply == Reply::kEcho) {
      responder_->Finish(request_, grpc::Status::OK, this);
    } else {
      responder_->Finish(empty_, grpc::Status::OK, this);
    }
  }

  Server& server_;
  grpc::ServerCompletionQueue& queue_;
  std::unique_ptr<grpc::ServerContext> context_;
  std::unique_ptr<grpc::ServerAsyncResponseWriter<Message>> responder_;
  Message request_;
  Message empty_ = empty_message(static_cast<Message*>(nullptr));
  bool is_replying_ = false;
};

template <typename Message>
Server<Message>::Server(const Options& options, std::size_t payload_bytes)
    : options_(options), payload_bytes_(payload_bytes) {}

template <typename Message>
Server<Message>::~Server() {
  if (server_ == nullptr) return;
  server_->Shutdown(std::chrono::system_clock::now() + kShutdownTime);
  {
    const std::lock_guard lock(stopping_mutex_);
    is_stopping_ = true;
  }
  for (const auto& queue : queues_) queue->Shutdown();
  for (std::thread& thread : threads_) thread.join();
}

template <typename Message>
std::string Server<Message>::start() {
  grpc::ServerBuilder builder;
  tune(builder, options_);
  int port = 0;
  builder.AddListeningPort(options_.listen, grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&service_);
  for (int number = 0; number < options_.server_threads; ++number) {
    queues_.push_back(builder.AddCompletionQueue());
  }
  server_ = builder.BuildAndStart();
  if (server_ == nullptr || port == 0) return "";
  for (const auto& queue : queues_) threads_.emplace_back([this, &queue] { serve(*queue); });
  if (options_.listen.starts_with("unix:")) return options_.listen;
  const std::size_t colon = options_.listen.rfind(':');
  return options_.listen.substr(0, colon + 1) + std::to_string(port);
}

template <typename Message>
void Server<Message>::serve(grpc::ServerCompletionQueue& queue) {
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

template class Server<Serialized>;
template class Server<Plain>;
