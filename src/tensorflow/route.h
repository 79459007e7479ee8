// Route: how one server reaches another task: by a channel, within the process, or by gRPC.
//
// A route is resolved once, by a meeting; what is sent or asked for until then waits. Both sides of
// a route come to the same answer, or a receiver would wait for a push that never comes.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "peer_process.h"
#include "tensorflow/core/distributed_runtime/worker_env.h"
#include "tensorflow/core/distributed_runtime/worker_session.h"

namespace farwrite::plugin {

class Runtime;

class Route {
 public:
  enum class State : int { kMeeting, kPush, kStock, kFailed };
  using Resolved = std::function<void(const Route&)>;

  State state() const { return state_.load(std::memory_order_acquire); }
  // For whom when_resolved() called: how it was resolved. The rest is fixed from then on.
  State outcome() const { return outcome_; }
  const std::string& task() const { return task_; }
  std::uint64_t server() const { return server_; }
  const Reach& reach() const { return reach_; }
  const absl::Status& failure() const { return failure_; }
  // A channel that has ended, or a failed meeting: meet again.
  bool stale() const;

  // Calls `resolved` once, at once if the route is resolved. In order. The callee asks outcome().
  void when_resolved(Resolved resolved);

 private:
  friend class Routes;
  explicit Route(std::string task) : task_(std::move(task)) {}
  void resolve(State state);

  const std::string task_;
  State outcome_ = State::kMeeting;
  std::atomic<State> state_{State::kMeeting};
  std::uint64_t server_ = 0;
  Reach reach_;
  absl::Status failure_;
  std::mutex mutex_;
  std::vector<Resolved> waiting_;
};

// The routes of one server. Thread-safe.
class Routes {
 public:
  Routes(Runtime* runtime, std::uint64_t server) : runtime_(runtime), server_(server) {}

  // The route to `task` by the cluster that `session` knows; starts the meeting at first.
  std::shared_ptr<Route> find(tensorflow::WorkerSession* session, const std::string& task);
  std::uint64_t server() const { return server_; }

 private:
  using Cache = std::shared_ptr<tensorflow::WorkerCacheInterface>;
  struct Known {
    std::weak_ptr<tensorflow::WorkerCacheInterface> cache;
    std::shared_ptr<Route> route;
  };

  void meet(std::shared_ptr<Route> route, Cache cache, int attempt);
  void met(const std::shared_ptr<Route>& route, const Cache& cache, const absl::Status& status,
           const tensorflow::RecvBufResponse& response, int attempt);

  Runtime* const runtime_;
  const std::uint64_t server_;
  std::mutex mutex_;
  // By worker cache, since two sessions may mean different clusters by the same task name.
  std::map<std::pair<const void*, std::string>, Known> routes_;
};

}  // namespace farwrite::plugin
