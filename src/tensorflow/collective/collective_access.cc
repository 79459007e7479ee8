#include "collective/collective_access.h"

#include <utility>

#include "collective/collective_post.h"
#include "collective/collective_receive.h"
#include "core/mutex.h"
#include "stats/stats.h"
#include "step/collective_peers.h"
#include "step/rendezvous.h"
#include "tensorflow/core/framework/device.h"
#include "tensorflow/core/util/device_name_utils.h"

namespace farwrite::plugin {

namespace tf = ::tensorflow;

namespace {

bool is_host(const std::string& device) {
  tf::DeviceNameUtils::ParsedName name;
  return tf::DeviceNameUtils::ParseFullName(device, &name) && name.type == "CPU";
}

// Whether the bytes of a tensor between these devices are in both hosts' memory. Both sides know
// this of each other, and so agree.
bool in_host_memory(const tf::Tensor& tensor, const std::string& device, const std::string& other) {
  return tf::DataTypeCanUseMemcpy(tensor.dtype()) && is_host(device) && is_host(other);
}

// TensorFlow's keys name a place in the sender's table.
std::string place(const std::string& sender, const std::string& receiver, const std::string& key) {
  return "collective;" + sender + ";" + receiver + ";" + key;
}

}  // namespace

absl::Status another_start(const Route& route) {
  return absl::FailedPreconditionError(
      "Farwrite: " + route.task() +
      " is not the one that joined the collective's group; it was probably restarted");
}

CollectiveAccess::CollectiveAccess(const CollectiveServer& server, std::int64_t step_id)
    : Base(server.devices, server.resolver, server.work_queue, server.cache.get(), step_id,
           server.task),
      rendezvous_(server.rendezvous),
      cache_(server.cache) {
  rendezvous_->arrivals().forgive({collective_space(rendezvous_->server()), step_id});
  rendezvous_->collective_peers().begin(step_id);
}

std::shared_ptr<Route> CollectiveAccess::route_to(const std::string& task) {
  // Also for a post: a group that has lost a member is over, and nothing waits for a later start.
  Routes& routes = rendezvous_->routes();
  rendezvous_->collective_peers().add(routes.shared_from_this(), step_id_, task);
  return routes.find(cache_, task_name_, task, Routes::For::kReceiving);
}

bool CollectiveAccess::first_from(const std::string& task) {
  const core::Lock lock(mutex_);
  return senders_.insert(task).second;
}

absl::Status CollectiveAccess::incarnation_of(const std::string& peer_device,
                                              std::uint64_t* incarnation) {
  tf::DeviceAttributes attributes;
  const absl::Status known = dev_resolver_->GetDeviceAttributes(peer_device, &attributes);
  tf::DeviceNameUtils::ParsedName name;
  const bool first = tf::DeviceNameUtils::ParseFullName(peer_device, &name) && name.id == 0;
  *incarnation = known.ok() && first ? attributes.incarnation() : 0;
  return known;
}

void CollectiveAccess::PostToPeer(const std::string& peer_device, const std::string& peer_task,
                                  const std::string& key, tf::Device* from_device,
                                  tf::DeviceContext* from_device_context,
                                  const tf::AllocatorAttributes& from_attributes,
                                  const tf::Tensor* from_tensor, const tf::DeviceLocality& locality,
                                  tf::CancellationManager* cancellation,
                                  const tf::StatusCallback& done) {
  const auto by_stock = [=](const tf::StatusCallback& done) {
    Base::PostToPeer(peer_device, peer_task, key, from_device, from_device_context, from_attributes,
                     from_tensor, locality, cancellation, done);
  };
  if (peer_task == task_name_) {
    by_stock(done);
    return;
  }
  if (!in_host_memory(*from_tensor, from_device->name(), peer_device)) {
    count(stats().pulls_device_memory);
    by_stock(done);
    return;
  }
  CollectivePost::PostedTensor outgoing;
  outgoing.peers = &rendezvous_->peers();
  outgoing.step = step_id_;
  outgoing.sender = rendezvous_->server();
  outgoing.key = place(from_device->name(), peer_device, key);
  outgoing.tensor = *from_tensor;
  outgoing.by_stock = by_stock;
  const auto post = std::make_shared<CollectivePost>(&abortion_cancel_mgr_, cancellation, done,
                                                     std::move(outgoing));
  std::uint64_t expected = 0;
  (void)incarnation_of(peer_device, &expected);  // stock's post asks for nothing, either
  const std::shared_ptr<Route> route = route_to(peer_task);
  post->watch();
  route->when_resolved(
      [post, expected](const Route& resolved) { post->route_resolved(resolved, expected); });
}

void CollectiveAccess::RecvFromPeer(const std::string& peer_device, const std::string& peer_task,
                                    bool peer_is_local, const std::string& key,
                                    tf::Device* to_device, tf::DeviceContext* to_device_context,
                                    const tf::AllocatorAttributes& to_attributes,
                                    tf::Tensor* to_tensor, const tf::DeviceLocality& locality,
                                    int stream, tf::CancellationManager* cancellation,
                                    const tf::StatusCallback& done) {
  const auto by_stock = [=](const tf::StatusCallback& done) {
    Base::RecvFromPeer(peer_device, peer_task, peer_is_local, key, to_device, to_device_context,
                       to_attributes, to_tensor, locality, stream, cancellation, done);
  };
  if (peer_is_local) {
    by_stock(done);
    return;
  }
  if (!in_host_memory(*to_tensor, peer_device, to_device->name())) {
    count(stats().collective_pulls);
    by_stock(done);
    return;
  }
  std::uint64_t expected = 0;
  const absl::Status known = incarnation_of(peer_device, &expected);
  if (!known.ok()) {
    done(known);
    return;
  }
  CollectiveReceive::AwaitedTensor incoming;
  incoming.arrivals = &rendezvous_->arrivals();
  incoming.step = {collective_space(rendezvous_->server()), step_id_};
  incoming.key = place(peer_device, to_device->name(), key);
  incoming.destination = *to_tensor;
  incoming.by_stock = by_stock;
  incoming.routes = &rendezvous_->routes();
  incoming.cache = cache_;
  incoming.task = task_name_;
  const auto receive = std::make_shared<CollectiveReceive>(&abortion_cancel_mgr_, cancellation,
                                                           done, std::move(incoming));
  const std::shared_ptr<Route> route = route_to(peer_task);
  const bool first = first_from(peer_task);
  receive->watch();  // from here on the receive may end, and this object with its step
  receive->begin(route, expected, first);
}

void CollectiveAccess::StartAbort(const absl::Status& status) {
  Base::StartAbort(status);
  rendezvous_->collective_peers().fail(rendezvous_->routes().shared_from_this(), step_id_, status,
                                       cache_, task_name_);
}

}  // namespace farwrite::plugin
