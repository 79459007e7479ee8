// RpcNode: a server's device, its links to other tasks, and the threads that read them.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "farwrite/device.h"
#include "peer_table.h"
#include "rpc_client.h"
#include "rpc_pool.h"
#include "rpc_service.h"

namespace farwrite::experiments {

// Thread-safe. Never destroyed: TensorFlow's own threads may outlive a server.
class RpcNode {
 public:
  // Listens where FARWRITE_RPC_OVER_FABRIC_PEERS says for `task`, over FARWRITE_FABRICS.
  static absl::Status open(const std::string& task, RpcNode** node);

  // Answers requests by `find` from now on, until close().
  void serve(RpcService::Find find);
  // As WorkerInterface::RecvTensorAsync() of another task. `done` never runs in this call.
  void receive(const std::string& task, tensorflow::CallOptions* options,
               const tensorflow::RecvTensorRequest& request, tensorflow::TensorResponse* response,
               RpcClient::Done done);
  // Ends all links and their threads. Calls that come later fail.
  void close();

  const std::string& task() const { return task_; }
  std::set<std::string> fabrics();
  // All nodes of this process.
  static std::set<RpcNode*> all();

 private:
  RpcNode(std::string task, PeerTable peers, Device device);

  Result<std::shared_ptr<RpcClient>> client(const std::string& task);
  void connect(const std::string& task, const Endpoint& endpoint,
               const std::shared_ptr<RpcClient>& client);
  void accept_all(const RpcService::Find& find);
  // Runs `body` on a thread of its own, which close() waits for.
  void start_thread(std::function<void()> body);
  RpcClient::Schedule schedule();

  const std::string task_;
  const PeerTable peers_;
  Device device_;
  RpcPool pool_;
  std::atomic<bool> closed_{false};

  std::mutex mutex_;
  std::condition_variable thread_ended_;
  int threads_ = 0;
  std::map<std::string, std::shared_ptr<RpcClient>> clients_;
  std::set<std::string> fabrics_;
};

}  // namespace farwrite::experiments
