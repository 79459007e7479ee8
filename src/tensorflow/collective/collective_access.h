// CollectiveAccess: how the collectives of one step reach other tasks. It replaces TensorFlow's
// CollectiveRemoteAccessDistributed, which stays below it for peers without the plug-in, for
// devices with memory of their own, and for what registered memory has no room for.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include "core/mutex.h"
#include "peer/route.h"
#include "tensorflow/core/distributed_runtime/collective_rma_distributed.h"

namespace farwrite::plugin {

class RendezvousMgr;

// What a collective ends with whose peer is another start of its task than the group was made of.
absl::Status another_start(const Route& route);

class CollectiveAccess final : public tensorflow::CollectiveRemoteAccessDistributed {
 public:
  // What all steps of a server share.
  struct CollectiveServer {
    RendezvousMgr* rendezvous = nullptr;
    const tensorflow::DeviceMgr* devices = nullptr;
    tensorflow::DeviceResolverInterface* resolver = nullptr;
    std::shared_ptr<tensorflow::UnboundedWorkQueue> work_queue;
    std::shared_ptr<tensorflow::WorkerCacheInterface> cache;
    std::string task;
  };

  CollectiveAccess(const CollectiveServer& server, std::int64_t step_id);

  void PostToPeer(const std::string& peer_device, const std::string& peer_task,
                  const std::string& key, tensorflow::Device* from_device,
                  tensorflow::DeviceContext* from_device_context,
                  const tensorflow::AllocatorAttributes& from_attributes,
                  const tensorflow::Tensor* from_tensor, const tensorflow::DeviceLocality& locality,
                  tensorflow::CancellationManager* cancellation,
                  const tensorflow::StatusCallback& done) override;
  void RecvFromPeer(const std::string& peer_device, const std::string& peer_task,
                    bool peer_is_local, const std::string& key, tensorflow::Device* to_device,
                    tensorflow::DeviceContext* to_device_context,
                    const tensorflow::AllocatorAttributes& to_attributes,
                    tensorflow::Tensor* to_tensor, const tensorflow::DeviceLocality& locality,
                    int stream, tensorflow::CancellationManager* cancellation,
                    const tensorflow::StatusCallback& done) override;
  // Ends the receives and posts of this task, and those of its peers that wait for this task, also
  // those that begin later.
  void StartAbort(const absl::Status& status) override;

 private:
  using Base = tensorflow::CollectiveRemoteAccessDistributed;

  std::shared_ptr<Route> route_to(const std::string& task);
  // Whether this is the first time in this step that something is to be received from the task.
  bool first_from(const std::string& task);
  // What the group knows of the server of `peer_device`; 0 if that is not its first device.
  absl::Status incarnation_of(const std::string& peer_device, std::uint64_t* incarnation);

  RendezvousMgr* const rendezvous_;
  const std::shared_ptr<tensorflow::WorkerCacheInterface> cache_;
  core::Mutex mutex_{core::LockRank::kProgram};
  std::set<std::string> senders_ FW_GUARDED_BY(mutex_);  // tasks that something was awaited from
};

}  // namespace farwrite::plugin
