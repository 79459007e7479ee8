#include "base/abi.h"

#include <dlfcn.h>

#include <string>

#include "base/abi_mismatch.h"
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

namespace {

// The file that a function was loaded from.
template <typename Function>
std::string file_of(Function* function) {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<void*>(function), &info) == 0 || info.dli_fname == nullptr)
    return "an unknown file";
  return info.dli_fname;
}

}  // namespace

absl::Status check_abi() {
  if (fw_abi_version() != FW_ABI_VERSION) {
    const LoadedFarwrite loaded{file_of(&fw_abi_version), fw_version(), fw_abi_version()};
    return absl::FailedPreconditionError(
        c_abi_mismatch(file_of(&check_abi), FW_ABI_VERSION, loaded));
  }
  // The version of a build that is no release may go on behind a plus sign.
  const std::string version = TF_Version();
  if (version.substr(0, version.find('+')) != FARWRITE_TENSORFLOW_VERSION) {
    return absl::FailedPreconditionError(
        tensorflow_mismatch(file_of(&check_abi), FARWRITE_TENSORFLOW_VERSION, version));
  }
  return absl::OkStatus();
}

}  // namespace farwrite::plugin
