// The rendezvous of one step: sends push, receives wait in the mailbox.
//
// It replaces TensorFlow's RpcRemoteRendezvous, which stays behind it for peers without the plug-in
// and for tensors that their sender asks to be pulled.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <unordered_map>

#include "route.h"
#include "tensorflow/core/distributed_runtime/base_rendezvous_mgr.h"
#include "tensorflow/core/distributed_runtime/rpc/rpc_rendezvous_mgr.h"

namespace farwrite::plugin {

class ReceiveCall;
class Runtime;
class RendezvousMgr;

class Rendezvous final : public tensorflow::BaseRemoteRendezvous {
 public:
  Rendezvous(RendezvousMgr* manager, const tensorflow::WorkerEnv* env, std::int64_t step_id);

  // Pushes a tensor for another task; keeps one for this task, or for a stock peer.
  absl::Status Send(const ParsedKey& key, const tensorflow::RendezvousInterface::Args& args,
                    const tensorflow::Tensor& value, bool is_dead) override;
  void StartAbort(const absl::Status& status) override;

 protected:
  void RecvFromRemoteAsync(const ParsedKey& key, const tensorflow::RendezvousInterface::Args& args,
                           DoneCallback done) override;

 private:
  friend class ReceiveCall;

  absl::Status keep(const ParsedKey& key, const tensorflow::RendezvousInterface::Args& args,
                    const tensorflow::Tensor& value, bool is_dead);
  // By RecvTensor, as stock would.
  void pull(const ParsedKey& key, const tensorflow::RendezvousInterface::Args& args,
            DoneCallback done);
  absl::Status aborted();
  std::shared_ptr<Route> route_to(const tensorflow::DeviceNameUtils::ParsedName& device,
                                  Routes::For purpose, absl::Status* status);

  RendezvousMgr* const manager_;
  std::mutex mutex_;
  absl::Status aborted_;
  tsl::core::RefCountPtr<tensorflow::BaseRemoteRendezvous> stock_;  // made when first needed
};

class RendezvousMgr final : public tensorflow::RpcRendezvousMgr {
 public:
  RendezvousMgr(const tensorflow::WorkerEnv* env, Runtime* runtime);

  void Cleanup(std::int64_t step_id) override;
  // What RecvTensor answers with: a tensor that gRPC carries.
  void RecvLocalAsync(std::int64_t step_id, const tensorflow::Rendezvous::ParsedKey& key,
                      tensorflow::Rendezvous::DoneCallback done) override;

  Runtime& runtime() { return *runtime_; }
  Routes& routes();
  // Incarnation of the server's first device: what names the server to its peers.
  std::uint64_t server();
  tsl::core::RefCountPtr<tensorflow::BaseRemoteRendezvous> make_stock(std::int64_t step_id);

 protected:
  tsl::core::RefCountPtr<tensorflow::BaseRemoteRendezvous> Create(
      std::int64_t step_id, const tensorflow::WorkerEnv* env) override;

 private:
  friend class Rendezvous;

  // Notes that the step pushes on the route.
  void will_push(std::int64_t step_id, const std::shared_ptr<Route>& route);

  const tensorflow::WorkerEnv* const env_;
  Runtime* const runtime_;
  std::once_flag routes_made_;
  std::unique_ptr<Routes> routes_;
  std::mutex mutex_;
  // Whom the last steps pushed to, until they are cleaned up here. A step that another task began
  // always is; the ones this task began never are, so the oldest are forgotten.
  std::unordered_map<std::int64_t, std::set<std::shared_ptr<Route>>> pushed_to_;
  std::deque<std::int64_t> oldest_first_;
};

}  // namespace farwrite::plugin
