// The server of protocol="grpc+farwrite": TensorFlow's gRPC server with our worker and rendezvous.
#include <memory>
#include <utility>

#include "abi.h"
#include "grpc_tally.h"
#include "own_address.h"
#include "rendezvous.h"
#include "runtime.h"
#include "tensorflow/core/distributed_runtime/rpc/grpc_server_lib.h"
#include "tensorflow/core/distributed_runtime/server_lib.h"
#include "worker.h"

namespace farwrite::plugin {
namespace {

namespace tf = ::tensorflow;

constexpr char kProtocol[] = "grpc+farwrite";

class Server final : public tf::GrpcServer {
 public:
  Server(const tf::ServerDef& server_def, tf::Env* env) : tf::GrpcServer(server_def, env) {}

  absl::Status init(Runtime* runtime, tf::DeviceMgr* devices) {
    tf::GrpcServerOptions options;
    options.local_device_mgr = devices;
    options.service_func = [](const tf::WorkerEnv*, ::grpc::ServerBuilder* builder) {
      install_grpc_tally(builder);
    };
    options.rendezvous_mgr_func = [runtime](const tf::WorkerEnv* env) {
      return new RendezvousMgr(env, runtime);
    };
    options.worker_func = [runtime](tf::WorkerEnv* env, const tf::ConfigProto& config) {
      return std::make_unique<Worker>(env, config, runtime);
    };
    return Init(options);
  }
};

class Factory final : public tf::ServerFactory {
 public:
  bool AcceptsOptions(const tf::ServerDef& server_def) override {
    return server_def.protocol() == kProtocol;
  }

  absl::Status NewServer(const tf::ServerDef& server_def, const Options& options,
                         std::unique_ptr<tf::ServerInterface>* out_server) override {
    Runtime* runtime = nullptr;
    absl::Status status = Runtime::open(own_host(server_def), &runtime);
    if (!status.ok()) return status;
    auto server = std::make_unique<Server>(server_def, tf::Env::Default());
    status = server->init(runtime, options.local_device_mgr);
    if (!status.ok()) return status;
    *out_server = std::move(server);
    return absl::OkStatus();
  }
};

const bool registered = [] {
  if (!check_abi().ok()) return false;  // plugin.cc says why
  tf::ServerFactory::Register("FARWRITE_SERVER", new Factory);
  return true;
}();

}  // namespace
}  // namespace farwrite::plugin
