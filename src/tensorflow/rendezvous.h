// The rendezvous of one step: sends push, receives wait in the mailbox.
//
// It replaces TensorFlow's RpcRemoteRendezvous, which stays behind it for peers without the plug-in
// and for tensors that their sender asks to be pulled.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <unordered_map>
#include <vector>

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

  // The step is over on this task: tells those it pushed to.
  void step_ended();

 protected:
  ~Rendezvous() override;
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
                                  absl::Status* status);

  RendezvousMgr* const manager_;
  std::mutex mutex_;
  absl::Status aborted_;
  std::set<std::shared_ptr<Route>> pushed_to_;
  bool ended_ = false;
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
  void add(std::int64_t step_id, Rendezvous* rendezvous);
  void remove(std::int64_t step_id, const Rendezvous* rendezvous);

  const tensorflow::WorkerEnv* const env_;
  Runtime* const runtime_;
  std::once_flag routes_made_;
  std::unique_ptr<Routes> routes_;
  std::mutex mutex_;
  std::unordered_map<std::int64_t, Rendezvous*> steps_;  // until their end; not owned
};

}  // namespace farwrite::plugin
