// The server of protocol="grpc+farwrite": TensorFlow's gRPC server with our worker and rendezvous.
#include <memory>
#include <utility>

#include "abi.h"
#include "collective_mgr.h"
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
  Server(const tf::ServerDef& server_def, tf::Env* env, Runtime* runtime)
      : tf::GrpcServer(server_def, env), runtime_(runtime) {}

  absl::Status init(tf::DeviceMgr* devices) {
    Runtime* const runtime = runtime_;
    tf::GrpcServerOptions options;
    options.local_device_mgr = devices;
    options.service_func = [](const tf::WorkerEnv*, ::grpc::ServerBuilder* builder) {
      install_grpc_tally(builder);
    };
    options.rendezvous_mgr_func = [runtime](const tf::WorkerEnv* env) {
      return new RendezvousMgr(env, runtime);
    };
    options.collective_mgr_func = [runtime](const tf::ConfigProto& config, const tf::WorkerEnv* env,
                                            tf::WorkerCacheInterface* cache) {
      return make_collective_mgr(config, *env, cache, runtime).release();
    };
    options.worker_func = [runtime](tf::WorkerEnv* env, const tf::ConfigProto& config) {
      return std::make_unique<Worker>(env, config, runtime);
    };
    return Init(options);
  }

  // It makes the stock manager of collectives anew, whatever the options were.
  absl::Status UpdateServerDef(const tf::ServerDef& server_def) override {
    const absl::Status updated = tf::GrpcServer::UpdateServerDef(server_def);
    if (!updated.ok()) return updated;
    tf::WorkerCacheInterface* const cache = last_cache_;
    worker_env()->collective_executor_mgr =
        make_collective_mgr(server_def.default_session_config(), *worker_env(), cache, runtime_);
    return updated;
  }

 protected:
  absl::Status WorkerCacheFactory(const tf::WorkerCacheFactoryOptions& options,
                                  tf::WorkerCacheInterface** cache) override {
    const absl::Status made = tf::GrpcServer::WorkerCacheFactory(options, cache);
    if (made.ok()) last_cache_ = *cache;
    return made;
  }

 private:
  Runtime* const runtime_;
  // On this thread; UpdateServerDef() hands it to nobody who would tell.
  static thread_local tf::WorkerCacheInterface* last_cache_;
};

thread_local tf::WorkerCacheInterface* Server::last_cache_ = nullptr;

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
    auto server = std::make_unique<Server>(server_def, tf::Env::Default(), runtime);
    status = server->init(options.local_device_mgr);
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
