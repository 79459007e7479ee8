#include "session/master_link.h"

#include <map>
#include <thread>
#include <utility>

#include "core/mutex.h"
#include "session/session_target.h"
#include "tensorflow/core/distributed_runtime/rpc/grpc_channel.h"
#include "tensorflow/core/distributed_runtime/rpc/grpc_worker_cache.h"
#include "tensorflow/core/distributed_runtime/worker_cache_wrapper.h"
#include "tensorflow/core/platform/random.h"

namespace farwrite::plugin {
namespace {

namespace tf = ::tensorflow;

// While a meeting is waited for, which is once a session.
constexpr std::chrono::milliseconds kLook(1);
// After a meeting that failed.
constexpr std::chrono::seconds kMeetAgain(10);
// A cluster of the one task that has the address, whatever it calls itself.
constexpr char kJob[] = "master";
constexpr char kTask[] = "/job:master/replica:0/task:0";

// The one worker, by any name: its routes have the one that users know.
class OneWorker final : public tf::WorkerCacheWrapper {
 public:
  explicit OneWorker(tf::WorkerCacheInterface* stock)
      : tf::WorkerCacheWrapper(stock), stock_(stock) {}

  tf::WorkerInterface* GetOrCreateWorker(const std::string&) override {
    return stock_->GetOrCreateWorker(kTask);
  }
  void ReleaseWorker(const std::string&, tf::WorkerInterface* worker) override {
    stock_->ReleaseWorker(kTask, worker);
  }

 private:
  const std::unique_ptr<tf::WorkerCacheInterface> stock_;
};

std::shared_ptr<tf::WorkerCacheInterface> one_worker(const std::string& address,
                                                     const tf::RPCOptions& options) {
  // Its threads wait for answers to meetings, which are few.
  static auto* const threads = new tf::GrpcWorkerEnv(1, 1);
  tf::GrpcChannelSpec cluster;
  // One job of one task: there is nothing to object to.
  (void)cluster.AddHostPortsJob(kJob, {{0, address}});
  std::shared_ptr<tf::GrpcChannelCache> channels(tf::NewGrpcChannelCache(
      cluster, tf::ConvertToChannelCreationFunction(tf::NewHostPortGrpcChannel), options));
  return std::make_shared<OneWorker>(tf::NewGrpcWorkerCache(std::move(channels), threads));
}

}  // namespace

MasterLink* MasterLink::to(const std::string& address, const tf::RPCOptions& options, Peers& peers,
                           StepClient& steps) {
  static auto* const mutex = new core::Mutex(core::LockRank::kProgram, 5);
  // A forked child has peers of its own.
  static auto* const links = new std::map<std::pair<const Peers*, std::string>, MasterLink*>;
  const core::Lock lock(*mutex);
  MasterLink*& known = (*links)[{&peers, address}];
  if (known == nullptr) known = new MasterLink(address, options, peers, steps);
  return known;
}

MasterLink::MasterLink(const std::string& address, const tf::RPCOptions& options, Peers& peers,
                       StepClient& steps)
    : steps_(steps),
      name_(kSessionTarget + address),
      cache_(one_worker(address, options)),
      routes_(Routes::create(peers, kClient, tf::random::New64())) {}

std::shared_ptr<Route> MasterLink::route() { return find(false); }

std::shared_ptr<Route> MasterLink::find(bool again) {
  const auto now = std::chrono::steady_clock::now();
  const core::Lock lock(mutex_);
  const bool waits = route_ != nullptr && route_->state() == Route::State::kFailed && !again &&
                     now < begun_ + kMeetAgain;
  if (route_ == nullptr || (route_->stale() && !waits)) {
    route_ = routes_->find(cache_, kClient, name_, Routes::For::kSending);
    begun_ = now;
  }
  return route_;
}

void MasterLink::wait(std::chrono::milliseconds at_most) {
  const std::shared_ptr<Route> route = find(true);
  const auto give_up = std::chrono::steady_clock::now() + at_most;
  // Those that when_resolved() calls come before the state that a step looks at.
  while (route->state() == Route::State::kMeeting && std::chrono::steady_clock::now() < give_up) {
    std::this_thread::sleep_for(kLook);
  }
}

}  // namespace farwrite::plugin
