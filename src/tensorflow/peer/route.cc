#include "peer/route.h"

#include "base/remote_error.h"
#include "base/work_queue.h"
#include "core/mutex.h"
#include "peer/meeting.h"
#include "stats/stats.h"
#include "tensorflow/core/common_runtime/device_mgr.h"
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

// In place of a server, where it is not known which one is meant.
constexpr std::uint64_t kLast = 0;
// Of one task. Beyond this, those without a channel are forgotten.
constexpr std::size_t kMaxIntroductions = 64;

// What a worker without the plug-in answers: that no device of its has incarnation 0, or that it
// cannot do this at all. Anything else may be a passing failure, and code that mistakes that for a
// stock worker asks it for tensors that it pushes.
bool is_stock_answer(const absl::Status& status) {
  return absl::IsFailedPrecondition(status) || absl::IsInvalidArgument(status) ||
         absl::IsUnimplemented(status) || absl::IsNotFound(status);
}

// The incarnation of the task's first device, as the session knows it, or 0.
std::uint64_t server_of(tf::WorkerSession& session, const std::string& task) {
  if (session.remote_device_mgr() == nullptr) return 0;
  tf::Device* device = nullptr;
  const absl::Status found =
      session.remote_device_mgr()->LookupDevice(task + "/device:CPU:0", &device);
  return found.ok() ? device->attributes().incarnation() : 0;
}

}  // namespace

// One call to a peer, alive until it is answered.
struct Routes::MeetingCall {
  Cache cache;
  tf::WorkerInterface* worker = nullptr;
  tf::CallOptions options;
  tf::RecvBufRequest request;
  tf::RecvBufResponse response;
};

bool Route::stale() const { return state() == State::kFailed || outdated_.load() || lost(); }

bool Route::lost() const {
  return state() == State::kPush && reach_.process != nullptr && reach_.process->ended();
}

Callee Callee::of(const Route& route, Route::State state) {
  Callee found;
  if (state != Route::State::kPush || route.stale()) return found;
  found.peer = route.reach().process;
  found.server = route.server();
  return found;
}

void Route::when_resolved(Resolved resolved) {
  if (state() == State::kMeeting) {
    const core::Lock lock(mutex_);
    if (state() == State::kMeeting) {
      waiting_.push_back(std::move(resolved));
      return;
    }
  }
  resolved(*this);
}

void Route::fail(const absl::Status& why) {
  failure_ = remote_error(task_, why);
  resolve(State::kFailed);
}

// What waits goes first, so that nothing overtakes it; only then do others see the state.
void Route::resolve(State state) {
  outcome_ = state;
  while (true) {
    std::vector<Resolved> waiting;
    {
      const core::Lock lock(mutex_);
      if (waiting_.empty()) {
        state_.store(state, std::memory_order_release);
        return;
      }
      waiting.swap(waiting_);
    }
    for (const Resolved& resolved : waiting) resolved(*this);
  }
}

std::shared_ptr<Route> Routes::find(Cache cache, const std::string& own, const std::string& task,
                                    For purpose, tf::WorkerSession* session) {
  std::shared_ptr<Route> route;
  int attempts = kAttempts;
  {
    const core::Lock lock(mutex_);
    const auto key = std::make_pair(static_cast<const void*>(cache.get()), task);
    const auto found = routes_.find(key);
    if (found != routes_.end() && found->second.cache.lock() == cache &&
        !found->second.route->stale()) {
      return found->second.route;
    }
    // A peer that was there and has gone is not waited for: stock's RPC would fail at once. A
    // sender, which no receiver asks, goes on: the peer may be back and wait for the push, while
    // gRPC still backs off from the failures before.
    if (purpose == For::kReceiving && found != routes_.end() && found->second.route->lost()) {
      attempts = 1;
    }
    for (auto at = routes_.begin(); at != routes_.end();) {
      at = at->second.cache.expired() ? routes_.erase(at) : std::next(at);
    }
    route = std::shared_ptr<Route>(new Route(task));
    route->expected_ = session == nullptr ? 0 : server_of(*session, task);
    routes_[key] = {cache, route};
  }
  meet(route, std::move(cache), own, attempts);
  return route;
}

void Routes::introduced(const Introduction& peer) {
  const core::Lock lock(mutex_);
  std::map<std::uint64_t, Introduction>& known = introductions_[peer.task];
  for (auto at = known.begin(); known.size() > kMaxIntroductions && at != known.end();) {
    const bool gone = !peers_.connected(ProcessId::of(at->second.process));
    at = gone ? known.erase(at) : std::next(at);
  }
  known[kLast] = known[peer.server] = peer;
  for (const auto& [key, known] : routes_) {
    if (key.second == peer.task && known.route->state() == Route::State::kStock &&
        known.route->server() == 0) {
      known.route->outdated_.store(true);
    }
  }
}

void Routes::meet(std::shared_ptr<Route> route, Cache cache, const std::string& own, int attempts) {
  const auto call = std::make_shared<MeetingCall>();
  Introduction introduction;
  introduction.task = own;
  introduction.server = server_;
  introduction.process = peers_.own();
  write_request(introduction, &call->request);
  const absl::Status begun =
      begin(call, std::move(cache), route->task(),
            [self = shared_from_this(), call, own, route, attempts](const absl::Status& status) {
              // Not here: the caller may hold locks, or this be a thread of gRPC's.
              WorkQueue::of_process().submit([self, call, own, route, status, attempts] {
                self->met(route, call->cache, own, status, call->response, attempts);
              });
            });
  if (!begun.ok()) route->fail(begun);
}

absl::Status Routes::begin(const std::shared_ptr<MeetingCall>& call, Cache cache,
                           const std::string& task, tf::StatusCallback done) {
  {
    const core::Lock lock(mutex_);
    if (closed_) return absl::CancelledError("Farwrite: this task's server has ended");
    ++beginning_;
    calls_.insert(call);
  }
  call->cache = std::move(cache);
  call->worker = call->cache->GetOrCreateWorker(task);
  absl::Status begun;
  if (call->worker != nullptr) {
    call->options.SetTimeout(kMeetTimeout);
    call->worker->RecvBufAsync(&call->options, &call->request, &call->response,
                               [self = shared_from_this(), call, task,
                                done = std::move(done)](const absl::Status& status) {
                                 call->cache->ReleaseWorker(task, call->worker);
                                 {
                                   const core::Lock lock(self->mutex_);
                                   self->calls_.erase(call);
                                 }
                                 done(status);
                               });
  } else {
    begun = absl::NotFoundError("Farwrite: no task " + task + " in the cluster");
  }
  const core::Lock lock(mutex_);
  if (!begun.ok()) calls_.erase(call);
  if (--beginning_ == 0) begun_.notify_all();
  return begun;
}

void Routes::close() {
  std::set<std::shared_ptr<MeetingCall>> calls;
  {
    core::Lock lock(mutex_);
    closed_ = true;
    begun_.wait(mutex_, [this]() FW_REQUIRES(mutex_) { return beginning_ == 0; });
    calls = calls_;
  }
  for (const std::shared_ptr<MeetingCall>& call : calls) call->options.StartCancel();
}

void Routes::met(const std::shared_ptr<Route>& route, const Cache& cache, const std::string& own,
                 const absl::Status& status, const tf::RecvBufResponse& response, int attempts) {
  if (!status.ok() && !is_stock_answer(status)) {
    if (reach_introduced(route)) return;
    if (attempts > 1) {
      tf::Env::Default()->SchedClosureAfter(
          kBetweenAttempts, [self = shared_from_this(), route, cache, own, attempts] {
            self->meet(route, cache, own, attempts - 1);
          });
      return;
    }
    route->fail(absl::UnavailableError("Farwrite: cannot exchange handshakes with " +
                                       route->task() + ": " + std::string(status.message())));
    return;
  }
  Introduction peer;
  const absl::Status read = status.ok() ? read_response(response, &peer) : status;
  if (!read.ok()) {
    LOG(INFO) << "Farwrite: " << route->task()
              << " has no plug-in, its tensors go over gRPC: " << read.message();
    route->reach_.refusal = "the peer has no plug-in: " + std::string(read.message());
    route->resolve(Route::State::kStock);
    return;
  }
  const ProcessId id = ProcessId::of(peer.process);
  if (!peer.refusal.empty()) peers_.refused_by(route->task(), id, peer.refusal);
  reach(route, peer);
}

bool Routes::reach_introduced(const std::shared_ptr<Route>& route) {
  Introduction peer;
  {
    const core::Lock lock(mutex_);
    const auto task = introductions_.find(route->task());
    if (task == introductions_.end()) return false;
    const auto server = task->second.find(route->expected_);
    if (server == task->second.end()) return false;
    peer = server->second;
  }
  if (!peers_.connected(ProcessId::of(peer.process))) return false;
  reach(route, peer);
  return true;
}

void Routes::reach(const std::shared_ptr<Route>& route, const Introduction& peer) {
  const bool forced = peers_.fabric_is_forced();
  peers_.reach(route->task(), peer.process, [route, peer, forced](const Reach& reach) {
    route->server_ = peer.server;
    route->reach_ = reach;
    const bool push = reach.loopback || reach.process != nullptr;
    if (push || !(reach.unclear || forced)) {
      route->resolve(push ? Route::State::kPush : Route::State::kStock);
      return;
    }
    std::string why = "Farwrite: " + route->task() + ": ";
    if (!reach.unclear) why += "FARWRITE_FABRICS allows only a fabric that fails: ";
    route->refused_ = !reach.unclear;
    route->fail(absl::UnavailableError(why + reach.refusal));
  });
}

void Routes::ask(const std::shared_ptr<Route>& route, const Cache& cache, const std::string& own,
                 std::int64_t step, bool collective, Answered answered) {
  RouteQuestion question;
  question.task = own;
  question.server = server_;
  question.step = step;
  question.collective = collective;
  {
    const core::Lock lock(mutex_);
    std::vector<Answered>& waiting = questions_[{route.get(), step, collective}];
    waiting.push_back(std::move(answered));
    if (waiting.size() > 1) return;
  }
  count(stats().route_questions);
  const auto call = std::make_shared<MeetingCall>();
  write_question(question, &call->request);
  const absl::Status begun =
      begin(call, cache, route->task(),
            [self = shared_from_this(), call, route, question](const absl::Status& status) {
              WorkQueue::of_process().submit([self, call, route, question, status] {
                self->answer(question, route.get(), status, call->response);
              });
            });
  if (!begun.ok()) answer(question, route.get(), begun, call->response);
}

void Routes::answer(const RouteQuestion& question, const Route* route, const absl::Status& status,
                    const tf::RecvBufResponse& response) {
  std::vector<Answered> waiting;
  {
    const core::Lock lock(mutex_);
    const auto found = questions_.find({route, question.step, question.collective});
    if (found == questions_.end()) return;
    waiting.swap(found->second);
    questions_.erase(found);
  }
  RouteAnswer answer = RouteAnswer::kKeeps;  // as a worker without the plug-in does
  const absl::Status read = status.ok() ? read_answer(response, &answer) : status;
  if (!read.ok() && !is_stock_answer(read)) {
    VLOG(1) << "Farwrite: " << route->task()
            << " did not answer whether it pushes: " << read.message();
    return;  // asked again later
  }
  for (const Answered& answered : waiting) answered(answer);
}

RouteAnswer Routes::answer_collective(const RouteQuestion& question) {
  const core::Lock lock(mutex_);
  bool keeps = false;
  for (const auto& [key, known] : routes_) {
    const Route& route = *known.route;
    if (key.second != question.task || route.state() == Route::State::kMeeting) continue;
    const bool pushes = route.state() == Route::State::kPush;
    if (pushes && route.server() == question.server) return RouteAnswer::kWait;
    keeps = keeps || !pushes;
  }
  return keeps ? RouteAnswer::kKeeps : RouteAnswer::kWait;
}

}  // namespace farwrite::plugin
