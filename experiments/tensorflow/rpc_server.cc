// The server of protocol="grpc+rpc-over-fabric": TensorFlow's gRPC server, whose tensors go over
// requests and replies through registered rings of a Farwrite fabric. It exists to be compared with
// Farwrite's plug-in; docs/reference/benchmarks.md describes it.
#include <memory>
#include <string>
#include <utility>

#include "rpc_counters.h"
#include "rpc_node.h"
#include "rpc_worker.h"
#include "tensorflow/core/distributed_runtime/rpc/grpc_server_lib.h"
#include "tensorflow/core/distributed_runtime/server_lib.h"

namespace farwrite::experiments {
namespace {

namespace tf = ::tensorflow;

constexpr char kProtocol[] = "grpc+rpc-over-fabric";

class RpcServer final : public tf::GrpcServer {
 public:
  RpcServer(const tf::ServerDef& server_def, tf::Env* env, RpcNode* node)
      : tf::GrpcServer(server_def, env), node_(node) {}
  ~RpcServer() override { node_->close(); }

  absl::Status init(tf::DeviceMgr* devices) {
    RpcWorker* worker = nullptr;
    tf::GrpcServerOptions options;
    options.local_device_mgr = devices;
    options.worker_func = [&worker](tf::WorkerEnv* env, const tf::ConfigProto& config) {
      auto made = std::make_unique<RpcWorker>(env, config);
      worker = made.get();
      return made;
    };
    const absl::Status made = Init(options);
    if (!made.ok()) return made;
    node_->serve([worker](tf::CallOptions* call, const tf::RecvTensorRequest& request,
                          RpcService::Reply reply) {
      worker->find_tensor(call, request, std::move(reply));
    });
    return made;
  }

 protected:
  absl::Status WorkerCacheFactory(const tf::WorkerCacheFactoryOptions& options,
                                  tf::WorkerCacheInterface** cache) override {
    const absl::Status made = tf::GrpcServer::WorkerCacheFactory(options, cache);
    if (made.ok() && *cache != nullptr) *cache = new RpcWorkerCache(*cache, node_);
    return made;
  }

 private:
  RpcNode* const node_;
};

class RpcServerFactory final : public tf::ServerFactory {
 public:
  bool AcceptsOptions(const tf::ServerDef& server_def) override {
    return server_def.protocol() == kProtocol;
  }

  absl::Status NewServer(const tf::ServerDef& server_def, const Options& options,
                         std::unique_ptr<tf::ServerInterface>* out_server) override {
    const std::string task = "/job:" + server_def.job_name() +
                             "/replica:" + std::to_string(server_def.replica()) +
                             "/task:" + std::to_string(server_def.task_index());
    RpcNode* node = nullptr;
    absl::Status status = RpcNode::open(task, &node);
    if (!status.ok()) return status;
    auto server = std::make_unique<RpcServer>(server_def, tf::Env::Default(), node);
    status = server->init(options.local_device_mgr);
    if (!status.ok()) return status;
    *out_server = std::move(server);
    return absl::OkStatus();
  }
};

const bool registered = [] {
  tf::ServerFactory::Register("FARWRITE_RPC_OVER_FABRIC_SERVER", new RpcServerFactory);
  return true;
}();

std::string counters_json() {
  std::string fabrics;
  const std::set<RpcNode*> nodes = RpcNode::all();
  if (nodes.empty()) return "{}";
  for (RpcNode* const node : nodes) {
    for (const std::string& fabric : node->fabrics()) {
      fabrics += (fabrics.empty() ? "\"" : ",\"") + fabric + "\"";
    }
  }
  const RpcCounters& counters = RpcCounters::of_process();
  const auto row = [](const char* name, const std::atomic<std::uint64_t>& count) {
    return "\"" + std::string(name) + "\":" + std::to_string(count.load()) + ",";
  };
  return "{" + row("requests", counters.requests) + row("served", counters.served) +
         row("copies", counters.copies) + row("bytes_sent", counters.bytes_sent) +
         row("bytes_received", counters.bytes_received) +
         row("grpc_recv_tensor_calls", counters.grpc_recv_tensor_calls) + "\"fabrics\":[" +
         fabrics + "]}";
}

}  // namespace
}  // namespace farwrite::experiments

// JSON, valid until this thread's next call. Empty before the first server.
extern "C" __attribute__((visibility("default"))) const char* farwrite_experiments_rpc_json(void) {
  static thread_local std::string text;
  text = farwrite::experiments::counters_json();
  return text.c_str();
}
