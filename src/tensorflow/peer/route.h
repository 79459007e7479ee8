// Route: how one server reaches another task: by a channel, within the process, or over gRPC.
//
// A route is resolved once, by a meeting; what is sent or asked for until then waits. The two sides
// of a route resolve it on their own and may differ. So a receiver that waits for long asks the
// sender; see RouteQuestion.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/mutex.h"
#include "peer/meeting.h"
#include "peer/peers.h"
#include "peer/route_question.h"
#include "tensorflow/core/distributed_runtime/worker_env.h"
#include "tensorflow/core/distributed_runtime/worker_session.h"

namespace farwrite::plugin {

class Route : public std::enable_shared_from_this<Route> {
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

  // The next tensor meets the task anew.
  void outdate() { outdated_.store(true); }
  // Whether the task was found to keep its tensors for RecvTensor, though they might be pushed.
  bool peer_keeps() const { return peer_keeps_.load(std::memory_order_relaxed); }
  void set_peer_keeps(bool keeps) { peer_keeps_.store(keeps, std::memory_order_relaxed); }

  // Calls `resolved` once, at once if the route is resolved. In order. The callee asks outcome().
  void when_resolved(Resolved resolved);

 private:
  friend class Routes;
  explicit Route(std::string task) : task_(std::move(task)) {}
  void resolve(State state);
  void fail(const absl::Status& why);

  const std::string task_;
  State outcome_ = State::kMeeting;
  std::atomic<bool> outdated_{false};
  std::atomic<bool> peer_keeps_{false};
  std::uint64_t expected_ = 0;  // the task's server, if the session knows its devices
  std::atomic<State> state_{State::kMeeting};
  std::uint64_t server_ = 0;
  Reach reach_;
  absl::Status failure_;
  bool refused_ = false;
  core::Mutex mutex_{core::LockRank::kProgram};
  std::vector<Resolved> waiting_ FW_GUARDED_BY(mutex_);
};

// Whom to call over a route. Without a peer: call over gRPC.
struct Callee {
  std::shared_ptr<PeerProcess> peer;
  std::uint64_t server = 0;  // its incarnation

  // `state`: the route's, or its outcome() for whom when_resolved() called.
  static Callee of(const Route& route, Route::State state);
};

// The routes of one server. Thread-safe.
class Routes : public std::enable_shared_from_this<Routes> {
 public:
  // `task` and `server` are this side's own.
  static std::shared_ptr<Routes> create(Peers& peers, std::string task, std::uint64_t server) {
    return std::shared_ptr<Routes>(new Routes(peers, std::move(task), server));
  }

  using Cache = std::shared_ptr<tensorflow::WorkerCacheInterface>;

  enum class For { kSending, kReceiving };
  // The route to `task` by the cluster that `cache` knows, where this task is `own`; starts the
  // meeting at first. `session`: whose cluster it is, if it is one's. The route does not keep the
  // cluster. A receive that waits on the route does: the session may get another one meanwhile.
  std::shared_ptr<Route> find(Cache cache, const std::string& own, const std::string& task,
                              For purpose, tensorflow::WorkerSession* session = nullptr);
  std::uint64_t server() const { return server_; }
  // A worker has introduced itself: what was stock no longer is.
  void introduced(const Introduction& peer);

  // Asks the task of the route, by the cluster that the step began with, whether it pushes to this
  // one, `own`, in this step. `answered` is called once, or never if there is no answer: ask again.
  // Questions under way are not doubled.
  using Answered = std::function<void(RouteAnswer)>;
  void ask(const std::shared_ptr<Route>& route, const Cache& cache, const std::string& own,
           std::int64_t step, bool collective, Answered answered);
  // What to answer of collectives.
  RouteAnswer answer_collective(const RouteQuestion& question);
  // The server ends, and with it the threads of gRPC that calls go by: ends those under way, and
  // begins none after it has returned.
  void close();

 private:
  Routes(Peers& peers, std::string task, std::uint64_t server)
      : peers_(peers), task_(std::move(task)), server_(server) {}

  struct MeetingCall;
  struct Known {
    std::weak_ptr<tensorflow::WorkerCacheInterface> cache;
    std::shared_ptr<Route> route;
  };

  // Begins a call to the task by `cache`. `done` is called once if this is ok, else never.
  absl::Status begin(const std::shared_ptr<MeetingCall>& call, Cache cache, const std::string& task,
                     tensorflow::StatusCallback done);
  // `attempts`: how often a peer that does not answer yet is asked.
  void meet(std::shared_ptr<Route> route, Cache cache, const std::string& own, int attempts);
  void met(const std::shared_ptr<Route>& route, const Cache& cache, const std::string& own,
           const absl::Status& status, const tensorflow::RecvBufResponse& response, int attempts);
  void answer(const RouteQuestion& question, const Route* route, const absl::Status& status,
              const tensorflow::RecvBufResponse& response);
  // Resolves the route of a task that cannot be called by its address in the cluster, like that of
  // a client on another host which calls itself localhost, but that has introduced itself and has a
  // channel to us. False if there is none.
  bool reach_introduced(const std::shared_ptr<Route>& route);
  void reach(const std::shared_ptr<Route>& route, const Introduction& peer);

  Peers& peers_;
  const std::string task_;
  const std::uint64_t server_;
  core::Mutex mutex_{core::LockRank::kProgram, 1};
  // By worker cache, since two sessions may mean different clusters by the same task name.
  std::map<std::pair<const void*, std::string>, Known> routes_ FW_GUARDED_BY(mutex_);
  // Of each task, by its server: clients of several clusters may have one name. The last one has
  // the key 0 as well.
  std::map<std::string, std::map<std::uint64_t, Introduction>> introductions_ FW_GUARDED_BY(mutex_);
  using Question = std::tuple<const Route*, std::int64_t, bool>;
  std::map<Question, std::vector<Answered>> questions_ FW_GUARDED_BY(mutex_);  // under way
  std::set<std::shared_ptr<MeetingCall>> calls_ FW_GUARDED_BY(mutex_);         // under way
  int beginning_ FW_GUARDED_BY(mutex_) = 0;                                    // calls
  core::CondVar begun_;
  bool closed_ FW_GUARDED_BY(mutex_) = false;
};

}  // namespace farwrite::plugin
