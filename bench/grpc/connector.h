// Opens connections one after the other, and keeps them: each with one call, then idle.
#pragma once

#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/generic_stub.h>

#include <memory>
#include <string>
#include <vector>

#include "message.h"
#include "options.h"

template <typename Message>
class Connector {
 public:
  explicit Connector(const Options& options);
  ~Connector();
  Connector(const Connector&) = delete;
  Connector& operator=(const Connector&) = delete;

  // Opens `count` connections. Returns "", or what failed.
  //
  // The time of a connection begins before its channel is made, and ends when the whole reply to
  // its first call is read. Between two connections gRPC gets time for what is left of the first.
  std::string open(const std::string& address, std::size_t count,
                   std::vector<double>& microseconds);
  // Makes a call over every connection. Returns "", or what failed.
  std::string call_all();

 private:
  using Stub = grpc::TemplatedGenericStub<Message, Message>;

  std::string call(Stub& stub);

  const Options options_;
  const PayloadMaker maker_;
  grpc::CompletionQueue queue_;
  std::vector<std::unique_ptr<Stub>> stubs_;
  std::uint8_t number_ = 0;
};
