#include "collective/collective_mgr.h"

#include <string>
#include <utility>

#include "collective/collective_access.h"
#include "step/collective_peers.h"
#include "step/rendezvous.h"
#include "tensorflow/core/common_runtime/base_collective_executor.h"
#include "tensorflow/core/common_runtime/device_mgr.h"
#include "tensorflow/core/distributed_runtime/collective_param_resolver_distributed.h"
#include "tensorflow/core/distributed_runtime/device_resolver_distributed.h"
#include "tensorflow/core/distributed_runtime/rpc_collective_executor_mgr.h"
#include "tensorflow/core/distributed_runtime/worker_cache.h"
#include "tensorflow/core/framework/device.h"
#include "tensorflow/core/nccl/collective_communicator.h"

namespace farwrite::plugin {
namespace {

namespace tf = ::tensorflow;

class CollectiveMgr final : public tf::RpcCollectiveExecutorMgr {
 public:
  CollectiveMgr(const tf::ConfigProto& config,
                std::unique_ptr<tf::DeviceResolverDistributed> device_resolver,
                std::unique_ptr<tf::CollectiveParamResolverDistributed> param_resolver,
                std::unique_ptr<tf::NcclCommunicatorInterface> nccl,
                CollectiveAccess::CollectiveServer server)
      : tf::RpcCollectiveExecutorMgr(config, server.devices, std::move(device_resolver),
                                     std::move(param_resolver), std::move(nccl), server.cache.get(),
                                     server.task),
        server_(std::move(server)) {
    server_.resolver = dev_resolver_.get();
    server_.work_queue = work_queue_;
  }

  void Cleanup(std::int64_t step_id) override {
    tf::RpcCollectiveExecutorMgr::Cleanup(step_id);
    server_.rendezvous->arrivals().forgive(
        {collective_space(server_.rendezvous->server()), step_id});
    server_.rendezvous->collective_peers().end(step_id);
  }

 protected:
  tf::CollectiveExecutor* Create(std::int64_t step_id) override {
    return new tf::BaseCollectiveExecutor(this, new CollectiveAccess(server_, step_id), step_id,
                                          dev_mgr_, work_queue_);
  }

 private:
  CollectiveAccess::CollectiveServer server_;
};

}  // namespace

std::unique_ptr<tf::CollectiveExecutorMgrInterface> make_collective_mgr(
    const tf::ConfigProto& config, const tf::DeviceMgr& devices, RendezvousMgr* rendezvous,
    std::shared_ptr<tf::WorkerCacheInterface> cache) {
  CollectiveAccess::CollectiveServer server;
  server.rendezvous = rendezvous;
  server.devices = &devices;
  server.cache = std::move(cache);
  tf::DeviceNameUtils::GetTaskName(devices.HostCPU()->parsed_name(), &server.task);
  auto nccl = tf::MaybeCreateNcclCommunicator(config);
  auto device_resolver = std::make_unique<tf::DeviceResolverDistributed>(&devices);
  auto param_resolver = std::make_unique<tf::CollectiveParamResolverDistributed>(
      config, &devices, device_resolver.get(), nccl.get(), server.cache.get(), server.task);
  return std::make_unique<CollectiveMgr>(config, std::move(device_resolver),
                                         std::move(param_resolver), std::move(nccl),
                                         std::move(server));
}

}  // namespace farwrite::plugin
