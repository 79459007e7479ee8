#include "route.h"

#include "meeting.h"
#include "runtime.h"
#include "tensorflow/core/distributed_runtime/call_options.h"
#include "tensorflow/core/distributed_runtime/worker_cache.h"
#include "tensorflow/core/distributed_runtime/worker_interface.h"
#include "tensorflow/core/platform/env.h"
#include "tensorflow/core/platform/logging.h"
#include "tensorflow/core/protobuf/worker.pb.h"

namespace farwrite::plugin {
namespace {

namespace tf = ::tensorflow;

// A peer's answer may wait for its attempt to connect to us.
constexpr std::int64_t kMeetTimeout = 20'000;  // ms
// A peer may not serve yet. Stock waits for its first RPC, too.
constexpr int kAttempts = 40;
constexpr std::int64_t kBetweenAttempts = 250'000;  // us

// One call to a peer, alive until it is answered.
struct Call {
  std::shared_ptr<tf::WorkerCacheInterface> cache;
  tf::WorkerInterface* worker = nullptr;
  tf::CallOptions options;
  tf::RecvBufRequest request;
  tf::RecvBufResponse response;
};

// What a worker without the plug-in answers: that no device of its has incarnation 0, or that it
// cannot do this at all. Anything else may be a passing failure, and whoever takes that for a stock
// worker asks it for tensors that it pushes.
bool is_stock_answer(const absl::Status& status) {
  return absl::IsFailedPrecondition(status) || absl::IsInvalidArgument(status) ||
         absl::IsUnimplemented(status) || absl::IsNotFound(status);
}

}  // namespace

bool Route::stale() const { return state() == State::kFailed || outdated_.load() || lost(); }

bool Route::lost() const {
  return state() == State::kPush && reach_.process != nullptr && reach_.process->ended();
}

void Route::when_resolved(Resolved resolved) {
  if (state() == State::kMeeting) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (state() == State::kMeeting) {
      waiting_.push_back(std::move(resolved));
      return;
    }
  }
  resolved(*this);
}

// What waits goes first, so that nothing overtakes it; only then do others see the state.
void Route::resolve(State state) {
  outcome_ = state;
  while (true) {
    std::vector<Resolved> waiting;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (waiting_.empty()) {
        state_.store(state, std::memory_order_release);
        return;
      }
      waiting.swap(waiting_);
    }
    for (const Resolved& resolved : waiting) resolved(*this);
  }
}

std::shared_ptr<Route> Routes::find(tf::WorkerSession* session, const std::string& task,
                                    For purpose) {
  return find(session->GetSharedWorkerCache(), task, purpose);
}

std::shared_ptr<Route> Routes::find(Cache cache, const std::string& task, For purpose) {
  std::shared_ptr<Route> route;
  int attempts = kAttempts;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto key = std::make_pair(static_cast<const void*>(cache.get()), task);
    const auto found = routes_.find(key);
    if (found != routes_.end() && found->second.cache.lock() == cache &&
        !found->second.route->stale()) {
      return found->second.route;
    }
    // Whoever was there and has gone is not waited for: stock's RPC would fail at once. A sender,
    // which is asked by nobody, goes on: the peer may be back and wait for the push, while gRPC
    // still backs off from the failures before.
    if (purpose == For::kReceiving && found != routes_.end() && found->second.route->lost()) {
      attempts = 1;
    }
    for (auto at = routes_.begin(); at != routes_.end();) {
      at = at->second.cache.expired() ? routes_.erase(at) : std::next(at);
    }
    route = std::shared_ptr<Route>(new Route(task));
    routes_[key] = {cache, route};
  }
  meet(route, std::move(cache), attempts);
  return route;
}

void Routes::introduced(const Introduction& peer) {
  const std::lock_guard<std::mutex> lock(mutex_);
  introductions_[peer.task] = peer;
  for (const auto& [key, known] : routes_) {
    if (key.second == peer.task && known.route->state() == Route::State::kStock &&
        known.route->server() == 0) {
      known.route->outdated_.store(true);
    }
  }
}

void Routes::meet(std::shared_ptr<Route> route, Cache cache, int attempts) {
  const auto call = std::make_shared<Call>();
  call->worker = cache->GetOrCreateWorker(route->task());
  if (call->worker == nullptr) {
    route->failure_ = absl::NotFoundError("Farwrite: no task " + route->task() + " in the cluster");
    route->resolve(Route::State::kFailed);
    return;
  }
  call->cache = std::move(cache);
  call->options.SetTimeout(kMeetTimeout);
  Introduction own;
  own.task = task_;
  own.server = server_;
  own.process = runtime_->peers().own();
  write_request(own, &call->request);
  call->worker->RecvBufAsync(
      &call->options, &call->request, &call->response,
      [this, call, route = std::move(route), attempts](const absl::Status& status) {
        call->cache->ReleaseWorker(route->task(), call->worker);
        // Not here: the caller may hold locks, or this be a thread of gRPC's.
        runtime_->schedule([this, call, route, status, attempts] {
          met(route, call->cache, status, call->response, attempts);
        });
      });
}

void Routes::met(const std::shared_ptr<Route>& route, const Cache& cache,
                 const absl::Status& status, const tf::RecvBufResponse& response, int attempts) {
  if (!status.ok() && !is_stock_answer(status)) {
    if (reach_introduced(route)) return;
    if (attempts > 1) {
      tf::Env::Default()->SchedClosureAfter(
          kBetweenAttempts, [this, route, cache, attempts] { meet(route, cache, attempts - 1); });
      return;
    }
    route->failure_ = absl::Status(status.code(), "Farwrite: cannot meet " + route->task() + ": " +
                                                      std::string(status.message()));
    route->resolve(Route::State::kFailed);
    return;
  }
  Introduction peer;
  const absl::Status read = status.ok() ? read_response(response, &peer) : status;
  if (!read.ok()) {
    LOG(INFO) << "Farwrite: " << route->task()
              << " has no plug-in, its tensors go by gRPC: " << read.message();
    route->reach_.refusal = "the peer has no plug-in: " + std::string(read.message());
    route->resolve(Route::State::kStock);
    return;
  }
  const ProcessId id = ProcessId::of(peer.process);
  if (!peer.refusal.empty()) runtime_->peers().refused_by(id, peer.refusal);
  reach(route, peer);
}

bool Routes::reach_introduced(const std::shared_ptr<Route>& route) {
  Introduction peer;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = introductions_.find(route->task());
    if (found == introductions_.end()) return false;
    peer = found->second;
  }
  if (!runtime_->peers().connected(ProcessId::of(peer.process))) return false;
  reach(route, peer);
  return true;
}

void Routes::reach(const std::shared_ptr<Route>& route, const Introduction& peer) {
  const bool forced = runtime_->fabric_is_forced();
  runtime_->peers().reach(peer.process, [route, peer, forced](const Reach& reach) {
    route->server_ = peer.server;
    route->reach_ = reach;
    const bool push = reach.loopback || reach.process != nullptr;
    if (push || !(reach.unclear || forced)) {
      route->resolve(push ? Route::State::kPush : Route::State::kStock);
      return;
    }
    std::string why = "Farwrite: " + route->task() + ": ";
    if (!reach.unclear) why += "FARWRITE_FABRIC allows no other way than a fabric that fails: ";
    route->failure_ = absl::UnavailableError(why + reach.refusal);
    route->refused_ = !reach.unclear;
    route->resolve(Route::State::kFailed);
  });
}

}  // namespace farwrite::plugin
