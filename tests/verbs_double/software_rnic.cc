// Devices and memory of a software RNIC, and what tests do to it.
#include "verbs_double/software_rnic.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace farwrite::verbs_double {
namespace {

constexpr unsigned kKnownAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                  IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

// Whether there are pages behind every byte, as pinning them would find out.
bool mapped(const void* address, std::size_t bytes) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(address) / page * page;
  const std::uintptr_t end = reinterpret_cast<std::uintptr_t>(address) + bytes;
  std::array<unsigned char, 4096> present;
  for (std::uintptr_t at = begin; at < end;) {
    const std::size_t part = std::min<std::size_t>(end - at, present.size() * page);
    if (::mincore(reinterpret_cast<void*>(at), part, present.data()) != 0) return false;
    at += part;
  }
  return true;
}

}  // namespace

SoftwareRnic::SoftwareRnic(const RnicOptions& device, const WireOptions& wire,
                           std::shared_ptr<Network> network)
    : SoftwareRnic(std::vector<RnicOptions>{device}, wire, std::move(network)) {}

SoftwareRnic::SoftwareRnic(const std::vector<RnicOptions>& devices, const WireOptions& wire,
                           std::shared_ptr<Network> network)
    : adapter_(devices, wire, std::move(network)), connections_(adapter_) {}

SoftwareRnic::~SoftwareRnic() {
  for (const std::string& left : leaks()) {
    std::fprintf(stderr, "software RNIC: %s left\n", left.c_str());
  }
}

bool SoftwareRnic::refuses(Call call) {
  const int error = adapter_.refused(call);
  if (error != 0) errno = error;
  return error != 0;
}

void SoftwareRnic::fail_next(ibv_wc_status status, std::uint32_t vendor_error, const ibv_qp* pair,
                             int after) {
  const std::lock_guard lock(adapter_.faults);
  adapter_.failures.push_back({status, vendor_error, pair, after});
  adapter_.any_faults = true;
}

void SoftwareRnic::refuse(Call call, int error, int times, int after) {
  const std::lock_guard lock(adapter_.faults);
  adapter_.refusals[call] = {error, after, times};
  adapter_.any_faults = true;
}

void SoftwareRnic::allow(Call call) {
  const std::lock_guard lock(adapter_.faults);
  adapter_.refusals.erase(call);
}

void SoftwareRnic::pause() {
  const std::unique_lock gate(adapter_.network->gate);
  adapter_.paused = true;
}

void SoftwareRnic::raise_port_event(ibv_event_type type, std::uint8_t port, std::size_t device) {
  Device& on = *adapter_.devices.at(device);
  if (type == IBV_EVENT_PORT_ERR || type == IBV_EVENT_PORT_ACTIVE) {
    const std::lock_guard lock(adapter_.objects);
    on.ports.at(port - 1u).options.state =
        type == IBV_EVENT_PORT_ERR ? IBV_PORT_DOWN : IBV_PORT_ACTIVE;
  }
  ibv_async_event event{};
  event.element.port_num = port;
  event.event_type = type;
  on.events.push(event);
}

void SoftwareRnic::raise_device_event(ibv_event_type type, std::size_t device) {
  ibv_async_event event{};
  event.event_type = type;
  adapter_.devices.at(device)->events.push(event);
}

void SoftwareRnic::raise_pair_event(ibv_event_type type, ibv_qp* pair) {
  static_cast<QueuePair*>(pair)->fail();
  ibv_async_event event{};
  event.element.qp = pair;
  event.event_type = type;
  adapter_.announce(pair->context, event);
}

void SoftwareRnic::remove_device(std::size_t device) {
  Device& on = *adapter_.devices.at(device);
  for (ibv_qp* pair : pairs()) {
    if (pair->context == &on.context) static_cast<QueuePair*>(pair)->fail();
  }
  raise_device_event(IBV_EVENT_DEVICE_FATAL, device);
  connections_.device_removed(on);
}

void SoftwareRnic::hold(ibv_qp* pair) { static_cast<QueuePair*>(pair)->held = true; }

void SoftwareRnic::release(ibv_qp* pair) { static_cast<QueuePair*>(pair)->held = false; }

std::vector<ibv_qp*> SoftwareRnic::pairs() {
  const std::lock_guard lock(adapter_.objects);
  std::vector<ibv_qp*> all;
  all.reserve(adapter_.pairs.size());
  for (const auto& [pair, state] : adapter_.pairs) all.push_back(pair);
  std::sort(all.begin(), all.end(),
            [](const ibv_qp* one, const ibv_qp* other) { return one->qp_num < other->qp_num; });
  return all;
}

std::uint64_t SoftwareRnic::posted(ibv_wr_opcode opcode) const {
  return adapter_.counters.posted.at(opcode);
}

std::vector<std::string> SoftwareRnic::complaints() {
  const std::lock_guard lock(adapter_.faults);
  return adapter_.complaints;
}

std::vector<std::string> SoftwareRnic::leaks() {
  std::vector<std::string> left;
  const auto note = [&](std::size_t count, const char* what) {
    if (count > 0) left.push_back(std::to_string(count) + " " + what);
  };
  note(connections_.live(), "ids");
  note(adapter_.memory.live(), "memory regions");
  const std::lock_guard lock(adapter_.objects);
  note(adapter_.pairs.size(), "queue pairs");
  note(adapter_.queues.size(), "completion queues");
  note(adapter_.channels.size(), "completion channels");
  note(adapter_.domains.size(), "protection domains");
  note(static_cast<std::size_t>(adapter_.event_channels), "event channels");
  note(static_cast<std::size_t>(adapter_.device_lists), "lists of devices");
  return left;
}

ibv_context** SoftwareRnic::get_devices(int* count) {
  if (refuses(Call::kGetDevices)) return nullptr;
  const std::size_t devices = adapter_.devices.size();
  if (devices == 0) {
    errno = ENODEV;
    return nullptr;
  }
  auto** list = static_cast<ibv_context**>(std::calloc(devices + 1, sizeof(ibv_context*)));
  for (std::size_t i = 0; i < devices; ++i) list[i] = &adapter_.devices[i]->context;
  if (count != nullptr) *count = static_cast<int>(devices);
  const std::lock_guard lock(adapter_.objects);
  ++adapter_.device_lists;
  return list;
}

void SoftwareRnic::free_devices(ibv_context** devices) {
  std::free(static_cast<void*>(devices));
  const std::lock_guard lock(adapter_.objects);
  --adapter_.device_lists;
}

const char* SoftwareRnic::device_name(ibv_context* context) { return context->device->name; }

std::vector<sockaddr_storage> SoftwareRnic::addresses() {
  std::vector<sockaddr_storage> all;
  for (const auto& device : adapter_.devices) {
    for (const Port& port : device->ports) {
      if (port.address) all.push_back(*port.address);
    }
  }
  return all;
}

int SoftwareRnic::query_device(ibv_context* context, ibv_device_attr* attributes) {
  if (const int error = adapter_.refused(Call::kQueryDevice); error != 0) return error;
  const RnicOptions& options = adapter_.device_of(context)->options;
  *attributes = {};
  std::snprintf(attributes->fw_ver, sizeof(attributes->fw_ver), "0.0.0");
  attributes->max_mr_size = options.max_mr_size;
  attributes->page_size_cap = 0xfffff000;
  attributes->vendor_id = 0x5af7;
  attributes->max_qp = options.max_qp;
  attributes->max_qp_wr = options.max_qp_wr;
  attributes->max_sge = options.max_sge;
  attributes->max_sge_rd = options.max_sge_rd;
  attributes->max_cq = options.max_cq;
  attributes->max_cqe = options.max_cqe;
  attributes->max_mr = options.max_mr;
  attributes->max_pd = 1 << 16;
  attributes->max_qp_rd_atom = options.max_qp_rd_atom;
  attributes->max_res_rd_atom = options.max_qp_rd_atom * options.max_qp;
  attributes->max_qp_init_rd_atom = options.max_qp_init_rd_atom;
  attributes->atomic_cap = options.supports_atomics ? IBV_ATOMIC_HCA : IBV_ATOMIC_NONE;
  attributes->max_pkeys = 1;
  attributes->phys_port_cnt = static_cast<std::uint8_t>(options.ports.size());
  return 0;
}

int SoftwareRnic::query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* attributes) {
  if (const int error = adapter_.refused(Call::kQueryPort); error != 0) return error;
  const Device& device = *adapter_.device_of(context);
  if (port == 0 || port > device.ports.size()) return EINVAL;
  const Port& asked = device.ports[port - 1u];
  *attributes = {};
  attributes->state = adapter_.port_state(device, port - 1u);
  attributes->max_mtu = IBV_MTU_4096;
  attributes->active_mtu = asked.options.active_mtu;
  attributes->gid_tbl_len = static_cast<int>(asked.gids.size());
  attributes->max_msg_sz = asked.options.max_msg_sz;
  attributes->pkey_tbl_len = 1;
  attributes->phys_state = attributes->state == IBV_PORT_ACTIVE ? 5 : 3;
  attributes->link_layer = device.options.transport == Transport::kInfiniBand
                               ? IBV_LINK_LAYER_INFINIBAND
                               : IBV_LINK_LAYER_ETHERNET;
  return 0;
}

int SoftwareRnic::query_gid(ibv_context* context, std::uint32_t port, std::uint32_t index,
                            ibv_gid_entry* entry) {
  const Device& device = *adapter_.device_of(context);
  if (port == 0 || port > device.ports.size()) return EINVAL;
  const auto& gids = device.ports[port - 1u].gids;
  if (index >= gids.size()) return EINVAL;
  *entry = gids[index];
  return 0;
}

int SoftwareRnic::get_async_event(ibv_context* context, ibv_async_event* event) {
  return adapter_.device_of(context)->events.take(event, [&](const ibv_async_event& one) {
    const std::lock_guard lock(adapter_.objects);
    adapter_.async_taken.insert(Adapter::subject_of(one));
  });
}

void SoftwareRnic::ack_async_event(ibv_async_event* event) {
  const std::lock_guard lock(adapter_.objects);
  const auto taken = adapter_.async_taken.find(Adapter::subject_of(*event));
  if (taken == adapter_.async_taken.end()) {
    adapter_.complain("an asynchronous event was acknowledged twice");
    return;
  }
  adapter_.async_taken.erase(taken);
}

ibv_pd* SoftwareRnic::alloc_pd(ibv_context* context) {
  if (refuses(Call::kAllocPd)) return nullptr;
  auto* domain = new ibv_pd{};
  domain->context = context;
  const std::lock_guard lock(adapter_.objects);
  adapter_.domains.insert(domain);
  return domain;
}

int SoftwareRnic::dealloc_pd(ibv_pd* domain) {
  {
    const std::lock_guard lock(adapter_.objects);
    const bool used = std::any_of(adapter_.pairs.begin(), adapter_.pairs.end(),
                                  [&](const auto& pair) { return pair.first->pd == domain; });
    if (used || adapter_.memory.uses(domain)) {
      adapter_.complain("dealloc_pd of a protection domain in use");
      return EBUSY;
    }
    if (adapter_.domains.erase(domain) == 0) {
      adapter_.complain("dealloc_pd of what is none");
      return EINVAL;
    }
  }
  delete domain;
  return 0;
}

ibv_mr* SoftwareRnic::reg_mr(ibv_pd* domain, void* address, std::size_t bytes, unsigned access) {
  if (refuses(Call::kRegMr)) return nullptr;
  const RnicOptions& options = adapter_.device_of(domain->context)->options;
  const bool remote_changes = (access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) != 0;
  if (bytes == 0 || bytes > options.max_mr_size ||
      (remote_changes && (access & IBV_ACCESS_LOCAL_WRITE) == 0) ||
      (access & ~(kKnownAccess | static_cast<unsigned>(IBV_ACCESS_OPTIONAL_RANGE))) != 0) {
    errno = EINVAL;
    return nullptr;
  }
  if (adapter_.memory.live() >= static_cast<std::size_t>(options.max_mr)) {
    errno = ENOMEM;
    return nullptr;
  }
  if (!mapped(address, bytes)) {
    errno = EFAULT;
    return nullptr;
  }
  return adapter_.memory.add(domain, address, bytes, access);
}

ibv_mr* SoftwareRnic::reg_dmabuf_mr(ibv_pd* domain, int fd, std::uint64_t offset, std::size_t bytes,
                                    std::uint64_t address, unsigned access) {
  if (refuses(Call::kRegDmabufMr)) return nullptr;
  return adapter_.memory.add_dma_buf(domain, fd, offset, bytes, reinterpret_cast<void*>(address),
                                     access);
}

int SoftwareRnic::dereg_mr(ibv_mr* region) {
  if (adapter_.memory.remove(region)) return 0;
  adapter_.complain("dereg_mr of what is no region");
  return EINVAL;
}

}  // namespace farwrite::verbs_double
