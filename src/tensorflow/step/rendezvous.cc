#include "step/rendezvous.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "base/remote_error.h"
#include "core/mutex.h"
#include "edges/edges.h"
#include "stats/stats.h"
#include "stats/transfer_log.h"
#include "step/receive_call.h"
#include "tensor/device_copy.h"
#include "tensor/push.h"
#include "tensorflow/core/common_runtime/device_mgr.h"
#include "tensorflow/core/framework/device.h"

namespace farwrite::plugin {

namespace tf = ::tensorflow;

namespace {

constexpr std::size_t kStepsRemembered = 4096;

}  // namespace

Rendezvous::Rendezvous(RendezvousMgr* manager, const tf::WorkerEnv* env, std::int64_t step_id)
    : tf::BaseRemoteRendezvous(env, step_id), manager_(manager), start_(++manager->starts_) {}

absl::Status Rendezvous::Initialize(tf::WorkerSession* session) {
  manager_->arrivals().step_begins({manager_->server(), step_id_});
  return tf::BaseRemoteRendezvous::Initialize(session);
}

std::shared_ptr<Route> Rendezvous::route_to(const tf::DeviceNameUtils::ParsedName& device,
                                            Routes::Cache cache, Routes::For purpose,
                                            absl::Status* status) {
  std::string task;
  if (!tf::DeviceNameUtils::GetTaskName(device, &task)) {
    *status = absl::InvalidArgumentError("Farwrite: a rendezvous key names no task");
    return nullptr;
  }
  return manager_->routes().find(std::move(cache), session()->worker_name(), task, purpose,
                                 session());
}

tf::Device* Rendezvous::own_device(absl::string_view name) {
  tf::Device* device = nullptr;
  const absl::Status found = session()->device_mgr()->LookupDevice(name, &device);
  return found.ok() ? device : nullptr;
}

absl::Status Rendezvous::aborted() {
  const core::Lock lock(mutex_);
  return aborted_;
}

absl::Status Rendezvous::keep(const ParsedKey& key, const tf::RendezvousInterface::Args& args,
                              const tf::Tensor& value, bool is_dead) {
  return tf::BaseRemoteRendezvous::Send(key, args, value, is_dead);
}

void Rendezvous::keep(const Sending& sending) {
  if (!aborted().ok())
    return;  // an aborted step keeps nothing, and its receiver is aborted as well
  const OutgoingTensor& outgoing = sending.outgoing;
  (void)keep(outgoing.key, sending.args, outgoing.tensor, outgoing.dead);
}

void Rendezvous::keep_untold(const Sending& sending) {
  {
    const core::Lock lock(mutex_);
    kept_for_.insert(sending.task);
  }
  keep(sending);
}

absl::Status Rendezvous::Send(const ParsedKey& key, const tf::RendezvousInterface::Args& args,
                              const tf::Tensor& value, bool is_dead) {
  if (IsSameWorker(key.src, key.dst)) return keep(key, args, value, is_dead);
  bool asked = false;
  {
    const core::Lock lock(mutex_);
    if (!aborted_.ok()) return aborted_;
    asked = !asked_.empty() && asked_.count(std::string(key.FullKey())) != 0;
  }
  if (asked) return keep(key, args, value, is_dead);
  absl::Status status;
  const std::shared_ptr<Route> route =
      route_to(key.dst, session()->GetSharedWorkerCache(), Routes::For::kSending, &status);
  if (route == nullptr) return status;
  manager_->will_push(step_id_, start_, route);
  auto sending = std::make_shared<Sending>();
  OutgoingTensor& outgoing = sending->outgoing;
  outgoing.step = step_id_;
  outgoing.start = start_;
  outgoing.sender = manager_->server();
  outgoing.key = key;
  outgoing.tensor = value;
  outgoing.dead = is_dead;
  sending->args = args;
  sending->task = route->task();
  if (args.device_context != nullptr) {
    args.device_context->Ref();
    sending->context.reset(args.device_context);
  }
  if (key.src.type != "CPU" && !args.alloc_attrs.on_host()) {
    tf::Device* const device = own_device(key.src_device);
    if (device == nullptr) return absl::UnavailableError("Farwrite: the step's devices are gone");
    sending->memory = DeviceMemory::of(device, args);
  }
  if (route->state() != Route::State::kMeeting) {
    route->when_resolved([&](const Route& resolved) { decide(sending, resolved); });
    return absl::OkStatus();
  }
  const std::string name(key.FullKey());
  {
    const core::Lock lock(mutex_);
    asked = asked_.count(name) != 0;
    if (!asked) undecided_[name] = sending;
  }
  if (asked) return keep(key, args, value, is_dead);
  route->when_resolved(
      [self = tsl::core::GetNewRef(this).release(), sending, name](const Route& resolved) {
        const tsl::core::RefCountPtr<Rendezvous> owned(self);
        if (owned->take_undecided(name)) owned->decide(sending, resolved);
      });
  return absl::OkStatus();
}

bool Rendezvous::take_undecided(const std::string& key) {
  const core::Lock lock(mutex_);
  return undecided_.erase(key) != 0;
}

void Rendezvous::decide(const SendingRef& sending, const Route& route) {
  if (route.refused()) {
    StartAbort(route.failure());
    return;
  }
  if (route.outcome() != Route::State::kPush) {
    keep_untold(*sending);  // where stock leaves it, for a receiver that asks, or never will
    return;
  }
  if (sending->memory.device != nullptr) {
    push_copy(sending, route);
  } else {
    push_now(*sending, sending->outgoing, route);
  }
}

void Rendezvous::push_copy(const SendingRef& sending, const Route& route) {
  const OutgoingTensor& outgoing = sending->outgoing;
  const Reach& reach = route.reach();
  const DeviceSends::TurnRef turn = device_sends_.add(split_key(outgoing.key.FullKey()).name);
  // A step may be cleaned up, and this with it, before the device has ended the copy.
  const auto ready =
      [self = std::shared_ptr<Rendezvous>(tsl::core::GetNewRef(this).release(),
                                          [](Rendezvous* rendezvous) { rendezvous->Unref(); }),
       turn, sending, to = route.shared_from_this()](OutgoingTensor copied) {
        self->device_sends_.ready(turn, [self, sending, to, copied = std::move(copied)] {
          if (self->aborted().ok()) self->push_now(*sending, copied, *to);
        });
      };
  if (outgoing.dead) {
    ready(outgoing);
    return;
  }
  const auto pulled = [&](Origin why) {
    OutgoingTensor of_device = outgoing;
    of_device.origin = why;
    ready(std::move(of_device));
  };
  if (!reach.loopback && reach.process->held()) return pulled(Origin::kDeviceHeld);
  fw_device* const registered = reach.loopback ? nullptr : manager_->peers().device();
  const bool began =
      copy_to_host(registered, sending->memory, outgoing.tensor, outgoing.key.edge_name,
                   [ready, sending, started = TransferLog::of_process().start()](
                       const absl::Status& status, const tf::Tensor& copy) {
                     OutgoingTensor copied = sending->outgoing;
                     copied.origin = Origin::kStaged;
                     copied.tensor = copy;
                     copied.failure = status;
                     copied.started = started;
                     ready(std::move(copied));
                   });
  if (!began) pulled(Origin::kDeviceNoRoom);
}

void Rendezvous::push_now(const Sending& sending, const OutgoingTensor& outgoing,
                          const Route& route) {
  const absl::Status pushed = push(manager_->peers().device(), manager_->arrivals(), route,
                                   outgoing, [this, &sending] { keep(sending); });
  if (!pushed.ok()) StartAbort(remote_error(route.task(), pushed));
  if (!route.lost()) return;
  // Maybe in this moment, and then it was kept.
  const core::Lock lock(mutex_);
  kept_for_.insert(sending.task);
}

void Rendezvous::asked(const std::string& key) {
  SendingRef undecided;
  {
    const core::Lock lock(mutex_);
    asked_.insert(key);
    const auto found = undecided_.find(key);
    if (found == undecided_.end()) return;
    undecided = found->second;
    undecided_.erase(found);
  }
  keep_untold(*undecided);
}

void Rendezvous::no_longer_asked(const std::string& key) {
  const core::Lock lock(mutex_);
  const auto found = asked_.find(key);
  if (found != asked_.end()) asked_.erase(found);
}

bool Rendezvous::keeps_for(const std::string& task) {
  std::vector<SendingRef> undecided;
  {
    const core::Lock lock(mutex_);
    for (auto at = undecided_.begin(); at != undecided_.end();) {
      if (at->second->task != task) {
        ++at;
        continue;
      }
      undecided.push_back(at->second);
      at = undecided_.erase(at);
    }
  }
  for (const SendingRef& sending : undecided) keep_untold(*sending);
  const core::Lock lock(mutex_);
  return kept_for_.count(task) != 0;
}

void Rendezvous::RecvFromRemoteAsync(const ParsedKey& key,
                                     const tf::RendezvousInterface::Args& args, DoneCallback done) {
  absl::Status status;
  const Routes::Cache cache = session()->GetSharedWorkerCache();
  const std::shared_ptr<Route> route = route_to(key.src, cache, Routes::For::kReceiving, &status);
  if (route == nullptr) {
    done(status, tf::RendezvousInterface::Args(), args, tf::Tensor(), false);
    return;
  }
  std::make_shared<ReceiveCall>(this, key, args, std::move(done))->begin(route, cache);
}

void Rendezvous::StartAbort(const absl::Status& status) {
  if (!IsRemoteEagerContextDefault()) {
    {
      const core::Lock lock(mutex_);
      if (aborted_.ok()) aborted_ = status;
    }
    device_sends_.clear();
  }
  tf::BaseRemoteRendezvous::StartAbort(status);
}

RendezvousMgr::RendezvousMgr(const tf::WorkerEnv* env, Peers& peers, ArrivalTable& arrivals)
    : tf::RpcRendezvousMgr(env), env_(env), peers_(peers), arrivals_(arrivals) {}

std::uint64_t RendezvousMgr::server() { return routes().server(); }

// Not in the constructor: the server makes its devices later.
Routes& RendezvousMgr::routes() {
  std::call_once(routes_made_, [this] {
    const tf::Device& host = *env_->device_mgr->HostCPU();
    std::string task;
    (void)tf::DeviceNameUtils::GetTaskName(host.parsed_name(), &task);
    routes_ = Routes::create(peers_, task, host.attributes().incarnation());
  });
  return *routes_;
}

tsl::core::RefCountPtr<tf::BaseRemoteRendezvous> RendezvousMgr::Create(std::int64_t step_id,
                                                                       const tf::WorkerEnv* env) {
  return tsl::core::RefCountPtr<tf::BaseRemoteRendezvous>(new Rendezvous(this, env, step_id));
}

void RendezvousMgr::will_push(std::int64_t step_id, std::uint64_t start,
                              const std::shared_ptr<Route>& route) {
  const core::Lock lock(mutex_);
  const auto [step, is_new] = pushed_to_.try_emplace(step_id);
  std::uint64_t& last = step->second[route];
  last = std::max(last, start);
  if (!is_new) return;
  oldest_first_.push_back(step_id);
  if (oldest_first_.size() > kStepsRemembered) {
    pushed_to_.erase(oldest_first_.front());
    oldest_first_.pop_front();
  }
}

void RendezvousMgr::RecvLocalAsync(std::int64_t step_id, const tf::Rendezvous::ParsedKey& key,
                                   tf::Rendezvous::DoneCallback done) {
  tsl::core::RefCountPtr<tf::RemoteRendezvous> found = Find(step_id);
  const std::shared_ptr<Rendezvous> step(static_cast<Rendezvous*>(found.release()),
                                         [](Rendezvous* rendezvous) { rendezvous->Unref(); });
  const std::string name(key.FullKey());
  step->asked(name);
  tf::RpcRendezvousMgr::RecvLocalAsync(
      step_id, key,
      [step, name, done = std::move(done)](
          const absl::Status& status, const tf::Rendezvous::Args& send_args,
          const tf::Rendezvous::Args& receive_args, const tf::Tensor& tensor, bool is_dead) {
        step->no_longer_asked(name);
        count(stats().grpc_recv_tensor_calls);
        count(stats().grpc_recv_tensor_bytes, tensor.TotalBytes());
        done(status, send_args, receive_args, tensor, is_dead);
      });
}

RouteAnswer RendezvousMgr::answer(const RouteQuestion& question) {
  if (question.collective) {
    collective_peers_.add(routes().shared_from_this(), question.step, question.task);
    return routes().answer_collective(question);
  }
  const tsl::core::RefCountPtr<tf::RemoteRendezvous> step = Find(question.step);
  if (static_cast<Rendezvous*>(step.get())->keeps_for(question.task)) return RouteAnswer::kKeeps;
  const core::Lock lock(mutex_);
  const auto pushed = pushed_to_.find(question.step);
  if (pushed == pushed_to_.end()) return RouteAnswer::kWait;
  for (const auto& [route, start] : pushed->second) {
    if (route->task() != question.task || route->state() != Route::State::kPush) continue;
    if (route->stale() || route->server() == question.server) continue;
    route->outdate();
    return RouteAnswer::kElsewhere;
  }
  return RouteAnswer::kWait;
}

void RendezvousMgr::Cleanup(std::int64_t step_id) {
  // A start after this is another life of the step.
  const std::uint64_t last = starts_.load();
  // First, so that nothing of the step is pushed behind the word that it is over.
  tf::RpcRendezvousMgr::Cleanup(step_id);
  std::vector<std::shared_ptr<Route>> routes;
  {
    const core::Lock lock(mutex_);
    const auto step = pushed_to_.find(step_id);
    if (step != pushed_to_.end()) {
      for (auto at = step->second.begin(); at != step->second.end();) {
        routes.push_back(at->first);
        at = at->second <= last ? step->second.erase(at) : std::next(at);
      }
      if (step->second.empty()) pushed_to_.erase(step);
    }
  }
  for (const std::shared_ptr<Route>& route : routes) {
    route->when_resolved(
        [&arrivals = arrivals_, server = server(), step_id, last](const Route& resolved) {
          push_step_gone(arrivals, resolved, server, step_id, last);
        });
  }
  arrivals_.step_ended({server(), step_id});
}

}  // namespace farwrite::plugin
