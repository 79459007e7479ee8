#include "rendezvous.h"

#include <string>
#include <utility>

#include "push.h"
#include "receive_call.h"
#include "runtime.h"
#include "stats.h"
#include "tensorflow/core/common_runtime/device_mgr.h"
#include "tensorflow/core/framework/device.h"

namespace farwrite::plugin {

namespace tf = ::tensorflow;

namespace {

constexpr std::size_t kStepsRemembered = 4096;

}  // namespace

Rendezvous::Rendezvous(RendezvousMgr* manager, const tf::WorkerEnv* env, std::int64_t step_id)
    : tf::BaseRemoteRendezvous(env, step_id), manager_(manager) {}

std::shared_ptr<Route> Rendezvous::route_to(const tf::DeviceNameUtils::ParsedName& device,
                                            Routes::For purpose, absl::Status* status) {
  std::string task;
  if (!tf::DeviceNameUtils::GetTaskName(device, &task)) {
    *status = absl::InvalidArgumentError("Farwrite: a rendezvous key names no task");
    return nullptr;
  }
  return manager_->routes().find(session(), task, purpose);
}

absl::Status Rendezvous::aborted() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return aborted_;
}

absl::Status Rendezvous::keep(const ParsedKey& key, const tf::RendezvousInterface::Args& args,
                              const tf::Tensor& value, bool is_dead) {
  return tf::BaseRemoteRendezvous::Send(key, args, value, is_dead);
}

absl::Status Rendezvous::Send(const ParsedKey& key, const tf::RendezvousInterface::Args& args,
                              const tf::Tensor& value, bool is_dead) {
  if (IsSameWorker(key.src, key.dst)) return keep(key, args, value, is_dead);
  absl::Status status = aborted();
  if (!status.ok()) return status;
  const std::shared_ptr<Route> route = route_to(key.dst, Routes::For::kSending, &status);
  if (route == nullptr) return status;
  manager_->will_push(step_id_, route);
  auto outgoing = std::make_shared<Outgoing>();
  outgoing->step = step_id_;
  outgoing->sender = manager_->server();
  outgoing->key = key;
  outgoing->tensor = value;
  outgoing->dead = is_dead;
  outgoing->host_memory = key.src.type == "CPU" && key.dst.type == "CPU";
  if (args.device_context != nullptr) args.device_context->Ref();
  route->when_resolved(
      [self = tsl::core::GetNewRef(this).release(), outgoing, args](const Route& resolved) {
        const tsl::core::RefCountPtr<Rendezvous> owned(self);
        const tsl::core::RefCountPtr<tf::DeviceContext> context(args.device_context);
        const auto keep = [&] {
          // An aborted step keeps nothing, and its receiver is aborted, too.
          if (!owned->aborted().ok()) return;
          (void)owned->keep(outgoing->key, args, outgoing->tensor, outgoing->dead);
        };
        if (resolved.refused()) {
          owned->StartAbort(resolved.failure());
          return;
        }
        if (resolved.outcome() != Route::State::kPush) {
          keep();  // where stock leaves it, for a receiver that asks, or never will
          return;
        }
        const absl::Status pushed = push(owned->manager_->runtime(), resolved, *outgoing, keep);
        if (!pushed.ok()) owned->StartAbort(pushed);
      });
  return absl::OkStatus();
}

void Rendezvous::RecvFromRemoteAsync(const ParsedKey& key,
                                     const tf::RendezvousInterface::Args& args, DoneCallback done) {
  absl::Status status;
  const std::shared_ptr<Route> route = route_to(key.src, Routes::For::kReceiving, &status);
  if (route == nullptr) {
    done(status, tf::RendezvousInterface::Args(), args, tf::Tensor(), false);
    return;
  }
  std::make_shared<ReceiveCall>(this, key, args, std::move(done))->begin(route);
}

void Rendezvous::pull(const ParsedKey& key, const tf::RendezvousInterface::Args& args,
                      DoneCallback done) {
  tsl::core::RefCountPtr<tf::BaseRemoteRendezvous> stock;
  absl::Status status;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    status = aborted_;
    if (status.ok() && stock_ == nullptr) {
      stock_ = manager_->make_stock(step_id_);
      status = stock_->Initialize(session());
    }
    if (status.ok()) stock = tsl::core::GetNewRef(stock_.get());
  }
  if (!status.ok()) {
    done(status, tf::RendezvousInterface::Args(), args, tf::Tensor(), false);
    return;
  }
  stock->RecvAsync(key, args, std::move(done));
}

void Rendezvous::StartAbort(const absl::Status& status) {
  tsl::core::RefCountPtr<tf::BaseRemoteRendezvous> stock;
  if (!IsRemoteEagerContextDefault()) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (aborted_.ok()) aborted_ = status;
    if (stock_ != nullptr) stock = tsl::core::GetNewRef(stock_.get());
  }
  tf::BaseRemoteRendezvous::StartAbort(status);
  if (stock != nullptr) stock->StartAbort(status);
}

RendezvousMgr::RendezvousMgr(const tf::WorkerEnv* env, Runtime* runtime)
    : tf::RpcRendezvousMgr(env), env_(env), runtime_(runtime) {}

std::uint64_t RendezvousMgr::server() { return routes().server(); }

// Not in the constructor: the server makes its devices later.
Routes& RendezvousMgr::routes() {
  std::call_once(routes_made_, [this] {
    const tf::Device& host = *env_->device_mgr->HostCPU();
    std::string task;
    (void)tf::DeviceNameUtils::GetTaskName(host.parsed_name(), &task);
    routes_ = std::make_unique<Routes>(runtime_, task, host.attributes().incarnation());
  });
  return *routes_;
}

tsl::core::RefCountPtr<tf::BaseRemoteRendezvous> RendezvousMgr::Create(std::int64_t step_id,
                                                                       const tf::WorkerEnv* env) {
  return tsl::core::RefCountPtr<tf::BaseRemoteRendezvous>(new Rendezvous(this, env, step_id));
}

tsl::core::RefCountPtr<tf::BaseRemoteRendezvous> RendezvousMgr::make_stock(std::int64_t step_id) {
  return tf::RpcRendezvousMgr::Create(step_id, env_);
}

void RendezvousMgr::will_push(std::int64_t step_id, const std::shared_ptr<Route>& route) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto [step, is_new] = pushed_to_.try_emplace(step_id);
  step->second.insert(route);
  if (!is_new) return;
  oldest_first_.push_back(step_id);
  if (oldest_first_.size() > kStepsRemembered) {
    pushed_to_.erase(oldest_first_.front());
    oldest_first_.pop_front();
  }
}

void RendezvousMgr::RecvLocalAsync(std::int64_t step_id, const tf::Rendezvous::ParsedKey& key,
                                   tf::Rendezvous::DoneCallback done) {
  tf::RpcRendezvousMgr::RecvLocalAsync(
      step_id, key,
      [done = std::move(done)](const absl::Status& status, const tf::Rendezvous::Args& send_args,
                               const tf::Rendezvous::Args& receive_args, const tf::Tensor& tensor,
                               bool is_dead) {
        count(stats().grpc_recv_tensor_calls);
        count(stats().grpc_recv_tensor_bytes, tensor.TotalBytes());
        done(status, send_args, receive_args, tensor, is_dead);
      });
}

void RendezvousMgr::Cleanup(std::int64_t step_id) {
  // First, so that nothing of the step is pushed behind the word that it is over.
  tf::RpcRendezvousMgr::Cleanup(step_id);
  std::set<std::shared_ptr<Route>> routes;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = pushed_to_.find(step_id);
    if (found != pushed_to_.end()) {
      routes.swap(found->second);
      pushed_to_.erase(found);
    }
  }
  for (const std::shared_ptr<Route>& route : routes) {
    route->when_resolved([server = server(), step_id](const Route& resolved) {
      push_step_gone(resolved, server, step_id);
    });
  }
  runtime_->mailbox().step_ended({server(), step_id});
}

}  // namespace farwrite::plugin
