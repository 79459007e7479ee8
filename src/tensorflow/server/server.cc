// The server of protocol="grpc+farwrite": TensorFlow's gRPC server with our worker and rendezvous.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/abi.h"
#include "base/options.h"
#include "base/own_address.h"
#include "collective/collective_mgr.h"
#include "core/mutex.h"
#include "server/context_watch.h"
#include "server/eager_service.h"
#include "server/expose.h"
#include "server/held_port.h"
#include "server/runtime.h"
#include "server/worker.h"
#include "server/worker_cache.h"
#include "stats/grpc_tally.h"
#include "step/rendezvous.h"
#include "tensorflow/core/distributed_runtime/rpc/grpc_server_lib.h"
#include "tensorflow/core/distributed_runtime/server_lib.h"
#include "tensorflow/core/distributed_runtime/session_mgr.h"

namespace farwrite::plugin {

namespace tf = ::tensorflow;

struct DefaultCacheOfSessions {
  using type = std::unique_ptr<tf::WorkerCacheInterface> tf::SessionMgr::*;
  friend type member(DefaultCacheOfSessions);
};
template struct Expose<DefaultCacheOfSessions, &tf::SessionMgr::default_worker_cache_>;

namespace {

constexpr char kProtocol[] = "grpc+farwrite";

class FarwriteServer final : public tf::GrpcServer {
 public:
  FarwriteServer(const tf::ServerDef& server_def, tf::Env* env, Runtime* runtime)
      : tf::GrpcServer(server_def, env), runtime_(runtime) {}

  absl::Status init(tf::DeviceMgr* devices) {
    tf::GrpcServerOptions options;
    options.local_device_mgr = devices;
    options.service_func = [this](const tf::WorkerEnv*, ::grpc::ServerBuilder* builder) {
      std::vector<std::unique_ptr<::grpc::experimental::ServerInterceptorFactoryInterface>> watches;
      watches.push_back(grpc_tally());
      watches.push_back(context_watch([this](std::uint64_t context, const tf::ConfigProto& config) {
        context_answered(context, config);
      }));
      builder->experimental().SetInterceptorCreators(std::move(watches));
    };
    options.rendezvous_mgr_func = [this](const tf::WorkerEnv* env) {
      return new RendezvousMgr(env, runtime_->peers(), runtime_->arrivals());
    };
    const Keep keep;
    options.collective_mgr_func = [this](const tf::ConfigProto& config, const tf::WorkerEnv* env,
                                         tf::WorkerCacheInterface*) {
      own_cache_ = kept_;
      return make_collective_mgr(config, *env->device_mgr, rendezvous(), kept_).release();
    };
    options.worker_func = [this](tf::WorkerEnv* env, const tf::ConfigProto& config) {
      return std::make_unique<Worker>(env, config, runtime_->peers());
    };
    const absl::Status made = Init(options);
    if (!made.ok()) return made;
    collectives_ = worker_env()->collective_executor_mgr.get();
    server_ = rendezvous()->server();
    runtime_->control_service().add(server_, {worker_impl(), eager_service_of(*this)});
    runtime_->step_service().add(server_, master_,
                                 server_def().default_session_config().operation_timeout_in_ms());
    return made;
  }
  // Only of a server that has not been started, like that of a connection that failed.
  ~FarwriteServer() override {
    if (rendezvous() != nullptr) rendezvous()->routes().close();
    runtime_->control_service().remove(server_);
    runtime_->step_service().remove(server_);
  }

  absl::Status UpdateServerDef(const tf::ServerDef& server_def) override {
    const Keep keep;
    const absl::Status updated = tf::GrpcServer::UpdateServerDef(server_def);
    if (!updated.ok()) return updated;
    const core::Lock lock(collectives_mutex_);
    own_cache_ = kept_;
    replace_collectives(server_def.default_session_config(), *worker_env()->device_mgr, kept_);
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
    if (keeping_) {
      kept_ = stock;
      leave_default_cache();
    }
    *cache = new WorkerCache(stock, control_over(options, stock));
    return made;
  }

 private:
  RendezvousMgr* rendezvous() { return static_cast<RendezvousMgr*>(worker_env()->rendezvous_mgr); }

  // Puts our manager of collectives in the place of one that TensorFlow has made, whatever the
  // options were, and returns that one. The master has a pointer to it of its own.
  std::unique_ptr<tf::CollectiveExecutorMgrInterface> replace_collectives(
      const tf::ConfigProto& config, const tf::DeviceMgr& devices,
      std::shared_ptr<tf::WorkerCacheInterface> cache) {
    auto manager = make_collective_mgr(config, devices, rendezvous(), std::move(cache));
    collectives_ = manager.get();
    manager.swap(worker_env()->collective_executor_mgr);
    master_env()->collective_executor_mgr = collectives_;
    return manager;
  }

  // UpdateServerDef deletes the cache that it replaces, though sessions, one of them as old as the
  // server, refer to it. A server that has been started is never destroyed, so this one stays.
  void leave_default_cache() {
    tf::SessionMgr* const sessions = worker_env()->session_mgr;
    if (sessions != nullptr) (void)(sessions->*member(DefaultCacheOfSessions())).release();
  }

  // A server's first context brings a manager of collectives, of its own cluster and with its own
  // leader, which it and later contexts use. It has no operation yet.
  void context_answered(std::uint64_t context, const tf::ConfigProto& config) {
    const core::Lock lock(collectives_mutex_);
    std::unique_ptr<tf::CollectiveExecutorMgrInterface> stock;  // until the context has ours
    if (worker_env()->collective_executor_mgr.get() != collectives_) {
      std::shared_ptr<tf::WorkerSession> session;
      const absl::Status found = worker_env()->session_mgr->WorkerSessionForSession(
          "eager_" + std::to_string(context), &session);
      // The session's devices are the server's, maybe under other names, and go with it.
      const tf::DeviceMgr* devices = worker_env()->device_mgr;
      if (found.ok() && session->device_mgr()->HostCPU()->name() != devices->HostCPU()->name()) {
        devices = session->device_mgr();
      }
      stock = replace_collectives(config, *devices,
                                  found.ok() ? session->GetSharedWorkerCache() : own_cache_);
    }
    set_collectives(*eager_service_of(*this), context, collectives_);
  }

  // How this server calls the tasks of a cluster; null if all calls go over gRPC.
  std::shared_ptr<const ControlCluster> control_over(
      const tf::WorkerCacheFactoryOptions& cluster,
      std::shared_ptr<tf::WorkerCacheInterface> stock) {
    if (!options().control) return nullptr;
    const std::string own_task = "/job:" + cluster.job_name +
                                 "/replica:" + std::to_string(cluster.replica_index) +
                                 "/task:" + std::to_string(cluster.task_index);
    const auto routes = [this]() -> Routes& { return rendezvous()->routes(); };
    return std::make_shared<ControlCluster>(runtime_->control_client(), own_task, routes,
                                            std::move(stock));
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
  core::Mutex collectives_mutex_{core::LockRank::kProgram, 4};
  tf::CollectiveExecutorMgrInterface* collectives_ = nullptr;  // ours, in the worker's environment
  std::shared_ptr<tf::WorkerCacheInterface> own_cache_;        // of the server's own cluster
  std::uint64_t server_ = 0;
  tf::Master* master_ = nullptr;  // the base class owns it
};

thread_local bool FarwriteServer::keeping_ = false;
thread_local std::shared_ptr<tf::WorkerCacheInterface> FarwriteServer::kept_;

class FarwriteServerFactory final : public tf::ServerFactory {
 public:
  bool AcceptsOptions(const tf::ServerDef& server_def) override {
    return server_def.protocol() == kProtocol;
  }

  absl::Status NewServer(const tf::ServerDef& server_def, const Options& options,
                         std::unique_ptr<tf::ServerInterface>* out_server) override {
    const HeldPort held(own_port(server_def));  // until gRPC has bound it
    Runtime* runtime = nullptr;
    absl::Status status = Runtime::open(own_host(server_def), task_name(server_def), &runtime);
    if (!status.ok()) return status;
    auto server = std::make_unique<FarwriteServer>(server_def, tf::Env::Default(), runtime);
    status = server->init(options.local_device_mgr);
    if (!status.ok()) return status;
    *out_server = std::move(server);
    return absl::OkStatus();
  }
};

const bool server_registered = [] {
  if (!check_abi().ok()) return false;  // plugin.cc says why
  tf::ServerFactory::Register("FARWRITE_SERVER", new FarwriteServerFactory);
  return true;
}();

}  // namespace
}  // namespace farwrite::plugin
