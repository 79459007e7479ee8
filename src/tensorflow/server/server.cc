// The server of protocol="grpc+farwrite": TensorFlow's gRPC server with our worker and rendezvous.
#include <memory>
#include <utility>

#include "abi.h"
#include "collectives/collective_mgr.h"
#include "options.h"
#include "peers/own_address.h"
#include "rendezvous/rendezvous.h"
#include "server/eager_service.h"
#include "server/runtime.h"
#include "server/worker.h"
#include "server/worker_cache.h"
#include "stats/grpc_tally.h"
#include "tensorflow/core/distributed_runtime/rpc/grpc_server_lib.h"
#include "tensorflow/core/distributed_runtime/server_lib.h"

namespace farwrite::plugin {
namespace {

namespace tf = ::tensorflow;

constexpr char kProtocol[] = "grpc+farwrite";

class Server final : public tf::GrpcServer {
 public:
  Server(const tf::ServerDef& server_def, tf::Env* env, Runtime* runtime)
      : tf::GrpcServer(server_def, env), runtime_(runtime) {}

  absl::Status init(tf::DeviceMgr* devices) {
    tf::GrpcServerOptions options;
    options.local_device_mgr = devices;
    options.service_func = [](const tf::WorkerEnv*, ::grpc::ServerBuilder* builder) {
      install_grpc_tally(builder);
    };
    options.rendezvous_mgr_func = [this](const tf::WorkerEnv* env) {
      return new RendezvousMgr(env, runtime_);
    };
    const Keep keep;
    options.collective_mgr_func = [this](const tf::ConfigProto& config, const tf::WorkerEnv* env,
                                         tf::WorkerCacheInterface*) {
      return make_collective_mgr(config, *env, kept_, runtime_).release();
    };
    options.worker_func = [this](tf::WorkerEnv* env, const tf::ConfigProto& config) {
      return std::make_unique<Worker>(env, config, runtime_);
    };
    const absl::Status made = Init(options);
    if (!made.ok()) return made;
    server_ = static_cast<RendezvousMgr*>(worker_env()->rendezvous_mgr)->server();
    runtime_->control_service().add(server_, {worker_impl(), eager_service_of(*this)});
    runtime_->step_service().add(server_, master_,
                                 server_def().default_session_config().operation_timeout_in_ms());
    return made;
  }
  ~Server() override {
    runtime_->control_service().remove(server_);
    runtime_->step_service().remove(server_);
  }

  // It makes the stock manager of collectives anew, whatever the options were.
  absl::Status UpdateServerDef(const tf::ServerDef& server_def) override {
    const Keep keep;
    const absl::Status updated = tf::GrpcServer::UpdateServerDef(server_def);
    if (!updated.ok()) return updated;
    worker_env()->collective_executor_mgr =
        make_collective_mgr(server_def.default_session_config(), *worker_env(), kept_, runtime_);
    return updated;
  }

 protected:
  std::unique_ptr<tf::Master> CreateMaster(tf::MasterEnv* env) override {
    std::unique_ptr<tf::Master> made = tf::GrpcServer::CreateMaster(env);
    master_ = made.get();
    return made;
  }

  absl::Status WorkerCacheFactory(const tf::WorkerCacheFactoryOptions& options,
                                  tf::WorkerCacheInterface** cache) override {
    const absl::Status made = tf::GrpcServer::WorkerCacheFactory(options, cache);
    if (!made.ok() || *cache == nullptr) return made;
    std::shared_ptr<tf::WorkerCacheInterface> stock(*cache);
    if (keeping_) kept_ = stock;
    *cache = new WorkerCache(stock, control_over(options, stock));
    return made;
  }

 private:
  // How this server calls the tasks of a cluster; null if all calls go by gRPC.
  std::shared_ptr<const ControlCluster> control_over(
      const tf::WorkerCacheFactoryOptions& cluster,
      std::shared_ptr<tf::WorkerCacheInterface> stock) {
    if (!options().control) return nullptr;
    const std::string own_task = "/job:" + cluster.job_name +
                                 "/replica:" + std::to_string(cluster.replica_index) +
                                 "/task:" + std::to_string(cluster.task_index);
    const auto routes = [env = worker_env()]() -> Routes& {
      return static_cast<RendezvousMgr*>(env->rendezvous_mgr)->routes();
    };
    return std::make_shared<ControlCluster>(runtime_, own_task, routes, std::move(stock));
  }

  // While it lives, the cache that this thread makes is the server's own, and not a session's.
  struct Keep {
    Keep() { keeping_ = true; }
    ~Keep() {
      keeping_ = false;
      kept_ = nullptr;
    }
    Keep(const Keep&) = delete;
    Keep& operator=(const Keep&) = delete;
  };

  static thread_local bool keeping_;
  static thread_local std::shared_ptr<tf::WorkerCacheInterface> kept_;
  Runtime* const runtime_;
  std::uint64_t server_ = 0;
  tf::Master* master_ = nullptr;  // the base class owns it
};

thread_local bool Server::keeping_ = false;
thread_local std::shared_ptr<tf::WorkerCacheInterface> Server::kept_;

class Factory final : public tf::ServerFactory {
 public:
  bool AcceptsOptions(const tf::ServerDef& server_def) override {
    return server_def.protocol() == kProtocol;
  }

  absl::Status NewServer(const tf::ServerDef& server_def, const Options& options,
                         std::unique_ptr<tf::ServerInterface>* out_server) override {
    Runtime* runtime = nullptr;
    absl::Status status = Runtime::open(own_host(server_def), task_name(server_def), &runtime);
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
