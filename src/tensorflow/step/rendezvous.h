// The rendezvous of one step: sends push, receives wait in the arrival table.
//
// It replaces TensorFlow's RpcRemoteRendezvous. A tensor in the memory of a device is copied into
// host memory first, and the copy is pushed. A tensor that cannot be pushed is kept where stock
// leaves it, and its receiver asks for it by RecvTensor. Every tensor is either pushed or kept,
// never both, and what has been asked for is kept.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "core/mutex.h"
#include "peer/route.h"
#include "step/collective_peers.h"
#include "step/device_sends.h"
#include "tensor/arrival_table.h"
#include "tensor/device_copy.h"
#include "tensor/push.h"
#include "tensorflow/core/distributed_runtime/base_rendezvous_mgr.h"
#include "tensorflow/core/distributed_runtime/rpc/rpc_rendezvous_mgr.h"

namespace farwrite::plugin {

class ReceiveCall;
class RendezvousMgr;

class Rendezvous final : public tensorflow::BaseRemoteRendezvous {
 public:
  Rendezvous(RendezvousMgr* manager, const tensorflow::WorkerEnv* env, std::int64_t step_id);

  // The step begins here, maybe again after a cleanup.
  absl::Status Initialize(tensorflow::WorkerSession* session) override;
  // Pushes a tensor for another task; keeps one for this task, or for a stock peer.
  absl::Status Send(const ParsedKey& key, const tensorflow::RendezvousInterface::Args& args,
                    const tensorflow::Tensor& value, bool is_dead) override;
  void StartAbort(const absl::Status& status) override;

 protected:
  void RecvFromRemoteAsync(const ParsedKey& key, const tensorflow::RendezvousInterface::Args& args,
                           DoneCallback done) override;

 private:
  friend class ReceiveCall;
  friend class RendezvousMgr;

  // A tensor on its way, until it is decided whether it is pushed or kept.
  struct Sending {
    OutgoingTensor outgoing;
    tensorflow::RendezvousInterface::Args args;
    tsl::core::RefCountPtr<tensorflow::DeviceContext> context;
    DeviceMemory memory;  // where the tensor lies
    std::string task;     // that it is for
  };
  using SendingRef = std::shared_ptr<Sending>;

  absl::Status keep(const ParsedKey& key, const tensorflow::RendezvousInterface::Args& args,
                    const tensorflow::Tensor& value, bool is_dead);
  // The same, unless the step has been aborted.
  void keep(const Sending& sending);
  // Keeps what the receiver is not told of: it may expect a push.
  void keep_untold(const Sending& sending);
  void decide(const SendingRef& sending, const Route& route);
  // Copies the tensor out of its device, and pushes it when that is done.
  void push_copy(const SendingRef& sending, const Route& route);
  // `outgoing`: of this tensor, or of its copy.
  void push_now(const Sending& sending, const OutgoingTensor& outgoing, const Route& route);
  // Whether it was undecided; then the caller decides.
  bool take_undecided(const std::string& key);
  // RecvTensor asks for the tensor: from now on it is kept, if it is not pushed already.
  void asked(const std::string& key);
  void no_longer_asked(const std::string& key);
  // Whether some tensor for the task is kept untold; what is undecided will be.
  bool keeps_for(const std::string& task);
  absl::Status aborted();
  tensorflow::Device* own_device(absl::string_view name);
  std::shared_ptr<Route> route_to(const tensorflow::DeviceNameUtils::ParsedName& device,
                                  Routes::Cache cache, Routes::For purpose, absl::Status* status);

  RendezvousMgr* const manager_;
  const std::uint64_t start_;
  core::Mutex mutex_{core::LockRank::kProgram, 1};
  absl::Status aborted_ FW_GUARDED_BY(mutex_);
  // Of tensors by key: asked for by RPC and not there yet; waiting for their route.
  std::unordered_multiset<std::string> asked_ FW_GUARDED_BY(mutex_);
  std::unordered_map<std::string, SendingRef> undecided_ FW_GUARDED_BY(mutex_);
  std::set<std::string> kept_for_ FW_GUARDED_BY(mutex_);  // tasks
  DeviceSends device_sends_;
};

class RendezvousMgr final : public tensorflow::RpcRendezvousMgr {
 public:
  // Both outlive every server.
  RendezvousMgr(const tensorflow::WorkerEnv* env, Peers& peers, ArrivalTable& arrivals);

  void Cleanup(std::int64_t step_id) override;
  // What RecvTensor answers with: a tensor that gRPC carries.
  void RecvLocalAsync(std::int64_t step_id, const tensorflow::Rendezvous::ParsedKey& key,
                      tensorflow::Rendezvous::DoneCallback done) override;

  Peers& peers() { return peers_; }
  ArrivalTable& arrivals() { return arrivals_; }
  Routes& routes();
  CollectivePeers& collective_peers() { return collective_peers_; }
  // Incarnation of the server's first device: what names the server to its peers.
  std::uint64_t server();
  // Whether this server pushes to the one that asks.
  RouteAnswer answer(const RouteQuestion& question);

 protected:
  tsl::core::RefCountPtr<tensorflow::BaseRemoteRendezvous> Create(
      std::int64_t step_id, const tensorflow::WorkerEnv* env) override;

 private:
  friend class Rendezvous;

  // Notes that this start of the step pushes on the route.
  void will_push(std::int64_t step_id, std::uint64_t start, const std::shared_ptr<Route>& route);

  const tensorflow::WorkerEnv* const env_;
  Peers& peers_;
  ArrivalTable& arrivals_;
  std::once_flag routes_made_;
  std::shared_ptr<Routes> routes_;
  CollectivePeers collective_peers_;
  core::Mutex mutex_{core::LockRank::kProgram, 1};
  std::atomic<std::uint64_t> starts_{0};  // of steps; a later one has a higher number
  // Whom the last steps pushed to, by which start at the latest, until they are cleaned up here. A
  // step that another task began always is; the ones this task began never are, so the oldest are
  // forgotten.
  std::unordered_map<std::int64_t, std::map<std::shared_ptr<Route>, std::uint64_t>> pushed_to_
      FW_GUARDED_BY(mutex_);
  std::deque<std::int64_t> oldest_first_ FW_GUARDED_BY(mutex_);
};

}  // namespace farwrite::plugin
