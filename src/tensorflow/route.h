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
#include "meeting.h"
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
  // Of a failed route: nothing may travel another way.
  bool refused() const { return refused_; }
  // Meet again: the channel has ended, the meeting failed, or a stock peer has become another.
  bool stale() const;
  // Whether a channel was there and its peer has gone.
  bool lost() const;

  // Calls `resolved` once, at once if the route is resolved. In order. The callee asks outcome().
  void when_resolved(Resolved resolved);

 private:
  friend class Routes;
  explicit Route(std::string task) : task_(std::move(task)) {}
  void resolve(State state);

  const std::string task_;
  State outcome_ = State::kMeeting;
  std::atomic<bool> outdated_{false};
  std::atomic<State> state_{State::kMeeting};
  std::uint64_t server_ = 0;
  Reach reach_;
  absl::Status failure_;
  bool refused_ = false;
  std::mutex mutex_;
  std::vector<Resolved> waiting_;
};

// The routes of one server. Thread-safe.
class Routes {
 public:
  // `task` and `server` are this side's own.
  Routes(Runtime* runtime, std::string task, std::uint64_t server)
      : runtime_(runtime), task_(std::move(task)), server_(server) {}

  enum class For { kSending, kReceiving };
  // The route to `task` by the cluster that `session` knows; starts the meeting at first.
  std::shared_ptr<Route> find(tensorflow::WorkerSession* session, const std::string& task,
                              For purpose);
  // By the cluster that `cache` knows.
  std::shared_ptr<Route> find(std::shared_ptr<tensorflow::WorkerCacheInterface> cache,
                              const std::string& task, For purpose);
  std::uint64_t server() const { return server_; }
  // A worker has introduced itself: what was stock no longer is.
  void introduced(const Introduction& peer);

 private:
  using Cache = std::shared_ptr<tensorflow::WorkerCacheInterface>;
  struct Known {
    std::weak_ptr<tensorflow::WorkerCacheInterface> cache;
    std::shared_ptr<Route> route;
  };

  // `attempts`: how often a peer that does not answer yet is asked.
  void meet(std::shared_ptr<Route> route, Cache cache, int attempts);
  void met(const std::shared_ptr<Route>& route, const Cache& cache, const absl::Status& status,
           const tensorflow::RecvBufResponse& response, int attempts);
  // Resolves the route of a task that cannot be called by its address in the cluster, like that of
  // a client on another host which calls itself localhost, but that has introduced itself and has a
  // channel to us. False if there is none.
  bool reach_introduced(const std::shared_ptr<Route>& route);
  void reach(const std::shared_ptr<Route>& route, const Introduction& peer);

  Runtime* const runtime_;
  const std::string task_;
  const std::uint64_t server_;
  std::mutex mutex_;
  // By worker cache, since two sessions may mean different clusters by the same task name.
  std::map<std::pair<const void*, std::string>, Known> routes_;
  std::map<std::string, Introduction> introductions_;  // the last of each task
};

}  // namespace farwrite::plugin
