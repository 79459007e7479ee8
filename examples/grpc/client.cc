// Sends ten blocks of 16 MiB and prints the last sum: a plain gRPC client.
//
//   client PORT
#include <grpcpp/grpcpp.h>

#include <iostream>
#include <memory>
#include <string>

#include "sum.grpc.pb.h"

int main(int, char** argv) {
  const std::unique_ptr<Sum::Stub> stub = Sum::NewStub(
      grpc::CreateChannel(std::string("127.0.0.1:") + argv[1], grpc::InsecureChannelCredentials()));
  Block block;
  block.set_data(std::string(16 << 20, '\1'));
  Total total;
  for (int call = 0; call < 10; ++call) {
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    const grpc::Status status = stub->Add(&context, block, &total);
    if (!status.ok()) {
      std::cerr << status.error_message() << std::endl;
      return 1;
    }
  }
  std::cout << "sum " << total.value() << std::endl;
}
