// Adds up the bytes of each block that it gets: a plain gRPC server.
//
//   server PORT
#include <grpcpp/grpcpp.h>

#include <csignal>
#include <cstdint>
#include <memory>
#include <string>

#include "sum.grpc.pb.h"

class SumService final : public Sum::Service {
  grpc::Status Add(grpc::ServerContext*, const Block* block, Total* total) override {
    std::uint64_t sum = 0;
    for (const unsigned char byte : block->data()) sum += byte;
    total->set_value(sum);
    return grpc::Status::OK;
  }
};

int main(int, char** argv) {
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGINT);
  sigprocmask(SIG_BLOCK, &ends, nullptr);  // in every thread of gRPC
  SumService service;
  grpc::ServerBuilder builder;
  builder.SetMaxReceiveMessageSize(-1);
  builder.AddListeningPort(std::string("127.0.0.1:") + argv[1], grpc::InsecureServerCredentials());
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  int signal = 0;
  sigwait(&ends, &signal);  // Ctrl-C
  server->Shutdown();
}
