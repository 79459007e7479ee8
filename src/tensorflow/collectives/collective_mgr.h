// The executors of a server's collectives: TensorFlow's, with our access to other tasks.
#pragma once

#include <memory>

#include "tensorflow/core/distributed_runtime/worker_cache.h"
#include "tensorflow/core/distributed_runtime/worker_env.h"
#include "tensorflow/core/framework/collective.h"
#include "tensorflow/core/protobuf/config.pb.h"

namespace farwrite::plugin {

class Runtime;

// `env` has its devices and our rendezvous manager.
std::unique_ptr<tensorflow::CollectiveExecutorMgrInterface> make_collective_mgr(
    const tensorflow::ConfigProto& config, const tensorflow::WorkerEnv& env,
    std::shared_ptr<tensorflow::WorkerCacheInterface> cache, Runtime* runtime);

}  // namespace farwrite::plugin
