#include "verbs_double/adapter.h"

#include <netinet/in.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>
#include <utility>

#include "verbs_double/connection_manager.h"
#include "verbs_double/network.h"
#include "verbs_double/queue_pair.h"

namespace farwrite::verbs_double {
namespace {

// The code that has not acknowledged by then never will.
constexpr std::chrono::seconds kPatience(20);

ibv_gid gid_of(const sockaddr_storage& address) {
  ibv_gid gid{};
  if (address.ss_family == AF_INET6) {
    std::memcpy(gid.raw, &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr, 16);
  } else {
    gid.raw[10] = gid.raw[11] = 0xff;
    std::memcpy(gid.raw + 12, &reinterpret_cast<const sockaddr_in&>(address).sin_addr, 4);
  }
  return gid;
}

std::vector<GidOptions> usual_gids(Transport transport, const PortOptions& port) {
  if (transport == Transport::kInfiniBand) return {{"fe80::1:2", IBV_GID_TYPE_IB}};
  if (transport == Transport::kIwarp) return {{"200:5eff:fe00::", IBV_GID_TYPE_IB}};
  std::vector<GidOptions> rows = {{"fe80::1:2", IBV_GID_TYPE_ROCE_V1},
                                  {"fe80::1:2", IBV_GID_TYPE_ROCE_V2}};
  if (!port.address.empty()) {
    rows.push_back({port.address, IBV_GID_TYPE_ROCE_V1});
    rows.push_back({port.address, IBV_GID_TYPE_ROCE_V2});
  }
  return rows;
}

std::unique_ptr<Device> make_device(const RnicOptions& options) {
  auto made = std::make_unique<Device>();
  made->options = options;
  const bool iwarp = options.transport == Transport::kIwarp;
  made->device.node_type = iwarp ? IBV_NODE_RNIC : IBV_NODE_CA;
  made->device.transport_type = iwarp ? IBV_TRANSPORT_IWARP : IBV_TRANSPORT_IB;
  std::snprintf(made->device.name, sizeof(made->device.name), "%s", options.name.c_str());
  std::snprintf(made->device.dev_name, sizeof(made->device.dev_name), "uverbs_%.50s",
                options.name.c_str());
  made->context.device = &made->device;
  made->context.cmd_fd = -1;
  made->context.async_fd = made->events.fd();
  made->context.num_comp_vectors = 1;
  for (const PortOptions& from : options.ports) {
    Port& port = made->ports.emplace_back();
    port.options = from;
    port.address = parse_address(from.address);
    for (const GidOptions& row : from.gids.value_or(usual_gids(options.transport, from))) {
      ibv_gid_entry entry{};
      entry.gid = gid_of(parse_address(row.address).value_or(sockaddr_storage{}));
      entry.gid_index = static_cast<std::uint32_t>(port.gids.size());
      entry.port_num = static_cast<std::uint32_t>(made->ports.size());
      entry.gid_type = row.type;
      entry.ndev_ifindex = 1;
      port.gids.push_back(entry);
    }
  }
  return made;
}

std::vector<std::unique_ptr<Device>> make_devices(const std::vector<RnicOptions>& options) {
  std::vector<std::unique_ptr<Device>> devices;
  devices.reserve(options.size());
  for (const RnicOptions& one : options) devices.push_back(make_device(one));
  return devices;
}

}  // namespace

Adapter::Adapter(const std::vector<RnicOptions>& options, const WireOptions& wire_behaviour,
                 std::shared_ptr<Network> joins)
    : network(joins != nullptr ? std::move(joins) : std::make_shared<Network>()),
      wire_options(wire_behaviour),
      devices(make_devices(options)),
      wire(*this) {
  const std::lock_guard lock(network->lock);
  network->adapters.push_back(this);
}

Adapter::~Adapter() {
  // Whatever is left must not be reached by other adapters any more.
  std::map<ibv_qp*, std::shared_ptr<QueuePair>> left;
  {
    const std::lock_guard lock(objects);
    left.swap(pairs);
  }
  for (const auto& [pair, state] : left) state->destroy();
  const std::unique_lock gate(network->gate);
  const std::lock_guard lock(network->lock);
  std::erase(network->adapters, this);
  std::erase_if(network->ids, [&](const auto& entry) {
    if (entry.second->adapter != this) return false;
    entry.second->destroyed = true;
    entry.second->adapter = nullptr;
    return true;
  });
}

Device* Adapter::device_of(const ibv_context* context) const {
  for (const auto& device : devices) {
    if (&device->context == context) return device.get();
  }
  return nullptr;
}

Device* Adapter::device_at(const sockaddr& address, std::uint8_t* port) const {
  for (const auto& device : devices) {
    for (std::size_t i = 0; i < device->ports.size(); ++i) {
      const auto& own = device->ports[i].address;
      if (!own || !same_host(reinterpret_cast<const sockaddr&>(*own), address)) continue;
      *port = static_cast<std::uint8_t>(i + 1);
      return device.get();
    }
  }
  return nullptr;
}

ibv_port_state Adapter::port_state(const Device& device, std::size_t port) {
  const std::lock_guard lock(objects);
  return device.ports[port].options.state;
}

int Adapter::refused(Call call) {
  if (!any_faults.load(std::memory_order_relaxed)) return 0;
  const std::lock_guard lock(faults);
  const auto at = refusals.find(call);
  if (at == refusals.end()) return 0;
  Refusal& refusal = at->second;
  if (refusal.after > 0) {
    --refusal.after;
    return 0;
  }
  const int error = refusal.error;
  if (refusal.times > 0 && --refusal.times == 0) refusals.erase(at);
  return error;
}

std::optional<Failure> Adapter::failure_for(const ibv_qp* pair) {
  if (!any_faults.load(std::memory_order_relaxed)) return std::nullopt;
  const std::lock_guard lock(faults);
  for (auto at = failures.begin(); at != failures.end(); ++at) {
    if (at->pair != nullptr && at->pair != pair) continue;
    if (at->after > 0) {
      --at->after;
      continue;
    }
    const Failure failure = *at;
    failures.erase(at);
    return failure;
  }
  return std::nullopt;
}

void Adapter::complain(const std::string& sentence) {
  std::fprintf(stderr, "software RNIC: %s\n", sentence.c_str());
  const std::lock_guard lock(faults);
  complaints.push_back(sentence);
}

void Adapter::announce(const ibv_context* context, const ibv_async_event& event) {
  device_of(context)->events.push(event);
}

const void* Adapter::subject_of(const ibv_async_event& event) {
  switch (event.event_type) {
    case IBV_EVENT_CQ_ERR:
      return event.element.cq;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      return event.element.qp;
    default:
      return nullptr;
  }
}

void Adapter::forget_events(const ibv_context* context, const void* about) {
  device_of(context)->events.remove_if(
      [&](const ibv_async_event& event) { return subject_of(event) == about; });
  // As libibverbs does, it waits: another thread may be about to acknowledge one.
  const auto end = std::chrono::steady_clock::now() + kPatience;
  const auto awaited = [&] {
    const std::lock_guard lock(objects);
    return async_taken.contains(about);
  };
  while (awaited() && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (!awaited()) return;
  complain("destroyed before all its asynchronous events are acknowledged, which waits for ever");
}

void Adapter::pair_failed(QueuePair& pair) {
  if (device_of(pair.context)->options.transport != Transport::kIwarp) return;
  std::shared_ptr<QueuePair> peer;
  {
    const std::lock_guard lock(pair.lock);
    peer = pair.peer.lock();
  }
  if (peer != nullptr) peer->fail();
  connection_lost(*network, pair);
}

}  // namespace farwrite::verbs_double
