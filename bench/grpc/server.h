// Serves Exchange until it is destroyed.
#pragma once

#include <grpcpp/server.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "message.h"
#include "options.h"

template <typename Message>
class Server {
 public:
  // `payload_bytes` is what every request must hold.
  Server(const Options& options, std::size_t payload_bytes);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Starts to listen. Returns where its clients connect, or "" if it cannot listen there.
  std::string start();

  // Requests served so far.
  std::uint64_t served() const { return served_.load(std::memory_order_relaxed); }
  // Requests whose payload was not the expected one.
  std::uint64_t wrong() const { return wrong_.load(std::memory_order_relaxed); }

 private:
  class Call;

  void serve(grpc::ServerCompletionQueue& queue);

  const Options options_;
  const std::size_t payload_bytes_;
  typename ServiceOf<Message>::Type service_;
  std::vector<std::unique_ptr<grpc::ServerCompletionQueue>> queues_;
  std::unique_ptr<grpc::Server> server_;
  std::vector<std::thread> threads_;
  std::mutex stopping_mutex_;
  bool is_stopping_ = false;
  std::atomic<std::uint64_t> served_{0};
  std::atomic<std::uint64_t> wrong_{0};
};
