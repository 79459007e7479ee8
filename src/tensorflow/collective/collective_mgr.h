// The executors of a server's collectives: TensorFlow's, with our access to other tasks.
#pragma once

#include <memory>

#include "tensorflow/core/common_runtime/device_mgr.h"
#include "tensorflow/core/distributed_runtime/worker_cache.h"
#include "tensorflow/core/framework/collective.h"
#include "tensorflow/core/protobuf/config.pb.h"

namespace farwrite::plugin {

class RendezvousMgr;

// For the server of `rendezvous`. `devices` are named as the cluster of `cache` names this task.
// They and `rendezvous` outlive the result.
std::unique_ptr<tensorflow::CollectiveExecutorMgrInterface> make_collective_mgr(
    const tensorflow::ConfigProto& config, const tensorflow::DeviceMgr& devices,
    RendezvousMgr* rendezvous, std::shared_ptr<tensorflow::WorkerCacheInterface> cache);

}  // namespace farwrite::plugin
