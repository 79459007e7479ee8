#include "base/abi.h"

#include <string>

#include "farwrite/c_api.h"
#include "tensorflow/core/common_runtime/base_collective_executor.h"
#include "tensorflow/core/distributed_runtime/base_rendezvous_mgr.h"
#include "tensorflow/core/distributed_runtime/collective_param_resolver_distributed.h"
#include "tensorflow/core/distributed_runtime/collective_rma_distributed.h"
#include "tensorflow/core/distributed_runtime/device_resolver_distributed.h"
#include "tensorflow/core/distributed_runtime/rpc/eager/grpc_eager_service_impl.h"
#include "tensorflow/core/distributed_runtime/rpc/grpc_server_lib.h"
#include "tensorflow/core/distributed_runtime/rpc/grpc_worker_service.h"
#include "tensorflow/core/distributed_runtime/rpc_collective_executor_mgr.h"
#include "tensorflow/core/distributed_runtime/session_mgr.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/public/version.h"

// The builder says which wheel it compiles for; the headers no longer do.
#ifndef FARWRITE_TENSORFLOW_VERSION
#error "build with: farwrite tensorflow build"
#endif

extern "C" const char* TF_Version(void);

namespace farwrite::plugin {

namespace tf = ::tensorflow;

// Classes that the plug-in derives from, reaches into or puts into TensorFlow's hands. Their sizes
// in the wheel were seen in its own code; other ones mean other flags or another library, and a
// crash later.
static_assert(sizeof(tf::GrpcServer) == 544, "GrpcServer is not the one of TensorFlow 2.21");
static_assert(sizeof(tf::BaseRemoteRendezvous) == 192,
              "BaseRemoteRendezvous is not TensorFlow 2.21's");
static_assert(sizeof(tf::GrpcWorker) == 184, "GrpcWorker is not the one of TensorFlow 2.21");
static_assert(sizeof(tf::eager::EagerServiceImpl) == 112,
              "EagerServiceImpl is not the one of TensorFlow 2.21");
static_assert(sizeof(tf::eager::GrpcEagerServiceImpl) == 224,
              "GrpcEagerServiceImpl is not the one of TensorFlow 2.21");
static_assert(sizeof(tf::SessionMgr) == 208, "SessionMgr is not the one of TensorFlow 2.21");
static_assert(sizeof(tf::RpcCollectiveExecutorMgr) == 304,
              "RpcCollectiveExecutorMgr is not TensorFlow 2.21's");
static_assert(sizeof(tf::CollectiveRemoteAccessDistributed) == 224,
              "CollectiveRemoteAccessDistributed is not TensorFlow 2.21's");
static_assert(sizeof(tf::BaseCollectiveExecutor) == 152,
              "BaseCollectiveExecutor is not TensorFlow 2.21's");
static_assert(sizeof(tf::CollectiveParamResolverDistributed) == 368,
              "CollectiveParamResolverDistributed is not TensorFlow 2.21's");
static_assert(sizeof(tf::DeviceResolverDistributed) == 80,
              "DeviceResolverDistributed is not TensorFlow 2.21's");

absl::Status check_abi() {
  if (fw_abi_version() != FW_ABI_VERSION) {
    return absl::FailedPreconditionError(
        "Farwrite: the plug-in was built for C ABI " + std::to_string(FW_ABI_VERSION) +
        " and libfarwrite has " + std::to_string(fw_abi_version()) +
        "; run: farwrite tensorflow clean && farwrite tensorflow build");
  }
  const std::string built = FARWRITE_TENSORFLOW_VERSION;
  if (built != TF_Version()) {
    return absl::FailedPreconditionError("Farwrite: the plug-in was built for TensorFlow " + built +
                                         " and this is " + TF_Version() +
                                         "; run: farwrite tensorflow build");
  }
  return absl::OkStatus();
}

}  // namespace farwrite::plugin
