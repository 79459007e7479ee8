#include "fabric/verbs/device_choice.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

namespace farwrite::fabric::verbs {
namespace {

constexpr int kLast = 9;  // rank of what nothing speaks for

const sockaddr_in& four(const sockaddr_storage& address) {
  return reinterpret_cast<const sockaddr_in&>(address);
}

const sockaddr_in6& six(const sockaddr_storage& address) {
  return reinterpret_cast<const sockaddr_in6&>(address);
}

// "10.9.0.1", "fe80::1%eth0".
std::string host_text(const sockaddr_storage& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address.ss_family == AF_INET) {
    ::inet_ntop(AF_INET, &four(address).sin_addr, text.data(), text.size());
    return text.data();
  }
  ::inet_ntop(AF_INET6, &six(address).sin6_addr, text.data(), text.size());
  std::array<char, IF_NAMESIZE> name{};
  const unsigned scope = six(address).sin6_scope_id;
  if (scope == 0 || ::if_indextoname(scope, name.data()) == nullptr) return text.data();
  return std::string(text.data()) + "%" + name.data();
}

// As a GID holds it: IPv4 is mapped into IPv6.
ibv_gid gid_of(const sockaddr_storage& address) {
  ibv_gid gid{};
  if (address.ss_family == AF_INET) {
    gid.raw[10] = gid.raw[11] = 0xFF;
    std::memcpy(gid.raw + 12, &four(address).sin_addr, 4);
  } else {
    std::memcpy(gid.raw, &six(address).sin6_addr, 16);
  }
  return gid;
}

// Whatever their ports are.
bool same_host(const sockaddr_storage& a, const sockaddr_storage& b) {
  return gid_of(a).global.subnet_prefix == gid_of(b).global.subnet_prefix &&
         gid_of(a).global.interface_id == gid_of(b).global.interface_id;
}

// Of a numeric host or a name; none if it is empty or nothing knows it.
std::vector<sockaddr_storage> addresses_of(const std::string& host) {
  std::vector<sockaddr_storage> found;
  if (host.empty()) return found;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* first = nullptr;
  if (::getaddrinfo(host.c_str(), nullptr, &hints, &first) != 0) return found;
  for (const addrinfo* entry = first; entry != nullptr; entry = entry->ai_next) {
    sockaddr_storage address{};
    std::memcpy(&address, entry->ai_addr, entry->ai_addrlen);
    found.push_back(address);
  }
  ::freeaddrinfo(first);
  return found;
}

const char* state_text(ibv_port_state state) {
  switch (state) {
    case IBV_PORT_DOWN:
      return "DOWN";
    case IBV_PORT_INIT:
      return "INIT (no subnet manager has configured it)";
    case IBV_PORT_ARMED:
      return "ARMED";
    case IBV_PORT_ACTIVE:
    case IBV_PORT_ACTIVE_DEFER:
      return "ACTIVE";
    default:
      return "in an unknown state";
  }
}

// Gb/s. The numbers are those of the InfiniBand specification.
std::uint32_t speed_of(const ibv_port_attr& port) {
  static const std::map<int, std::uint32_t> lanes = {{1, 1}, {2, 4}, {4, 8}, {8, 12}, {16, 2}};
  static const std::map<int, std::uint32_t> rates = {{1, 2},   {2, 5},   {4, 10},  {8, 10},
                                                     {16, 14}, {32, 25}, {64, 50}, {128, 100}};
  const auto width = lanes.find(port.active_width);
  const auto rate = rates.find(port.active_speed);
  return width == lanes.end() || rate == rates.end() ? 0 : width->second * rate->second;
}

// One search. Remembers of every device why it does not do.
class Search {
 public:
  Search(VerbsLibrary& library, const FabricOptions& options)
      : library_(library), options_(options) {}
  ~Search() {
    if (channel_ != nullptr) library_.destroy_event_channel(channel_);
    if (devices_ != nullptr) library_.free_devices(devices_);
  }
  Search(const Search&) = delete;
  Search& operator=(const Search&) = delete;

  Result<std::vector<RdmaAddress>> run();

 private:
  struct Candidate {
    RdmaAddress address;
    int rank = kLast;
    std::uint32_t speed = 0;
    std::size_t order = 0;  // in which the host names its addresses
  };

  void look_at_device(ibv_context* context);
  void look_at_address(const sockaddr_storage& address);
  std::optional<Candidate> judge(const sockaddr_storage& address, ibv_context* context,
                                 std::uint8_t port);
  bool choose_gid(const ibv_port_attr& port, Candidate& candidate);
  void reject(const std::string& device, const std::string& why) {
    auto& reasons = reasons_[device];
    if (std::find(reasons.begin(), reasons.end(), why) == reasons.end()) reasons.push_back(why);
  }
  void keep_listen_host(std::vector<Candidate>& candidates) const;
  Status nothing_fits() const;
  Status no_device(int error_number) const;

  VerbsLibrary& library_;
  const FabricOptions& options_;
  ibv_context** devices_ = nullptr;
  rdma_event_channel* channel_ = nullptr;
  std::map<std::string, std::vector<std::string>> reasons_;  // by device
  std::map<std::string, std::vector<std::uint8_t>> active_ports_;
  std::vector<std::pair<std::string, std::uint8_t>> bound_;  // ports that an address led to
  std::vector<Candidate> candidates_;
};

void Search::look_at_device(ibv_context* context) {
  const std::string name = library_.device_name(context);
  reasons_[name];  // the sentence names every device
  if (!options_.device.empty() && name != options_.device) {
    return reject(name, "is not " + options_.device + ", which was requested");
  }
  ibv_device_attr limits{};
  if (const int error = library_.query_device(context, &limits); error != 0) {
    return reject(name, "does not answer (errno " + std::to_string(error) + ")");
  }
  if (options_.port > limits.phys_port_cnt) {
    reject(name, "has no port " + std::to_string(options_.port));
  }
  for (std::uint8_t port = 1; port <= limits.phys_port_cnt; ++port) {
    if (options_.port != 0 && port != options_.port) continue;
    ibv_port_attr attributes{};
    const std::string which = "port " + std::to_string(port);
    if (const int error = library_.query_port(context, port, &attributes); error != 0) {
      reject(name, which + " does not answer (errno " + std::to_string(error) + ")");
    } else if (attributes.state == IBV_PORT_ACTIVE || attributes.state == IBV_PORT_ACTIVE_DEFER) {
      active_ports_[name].push_back(port);
    } else {
      reject(name, which + " is " + state_text(attributes.state));
    }
  }
}

void Search::look_at_address(const sockaddr_storage& address) {
  rdma_cm_id* id = nullptr;
  if (library_.create_id(channel_, &id) != 0) return;
  sockaddr_storage wanted = address;  // port 0: any
  const int error = library_.bind_addr(id, reinterpret_cast<sockaddr*>(&wanted));
  // An error is the rule: the address belongs to an interface without RDMA.
  if (error == 0 && id->verbs != nullptr) {
    if (auto candidate = judge(address, id->verbs, id->port_num)) {
      candidate->order = candidates_.size();
      candidates_.push_back(std::move(*candidate));
    }
  }
  (void)library_.destroy_id(id);
}

std::optional<Search::Candidate> Search::judge(const sockaddr_storage& address,
                                               ibv_context* context, std::uint8_t port) {
  Candidate candidate;
  RdmaAddress& found = candidate.address;
  found.address = address;
  found.host = host_text(address);
  found.context = context;
  found.device = library_.device_name(context);
  found.port = port;
  bound_.emplace_back(found.device, port);
  // look_at_device() has told the reason why a device or a port does not do.
  const auto& active = active_ports_[found.device];
  if (std::find(active.begin(), active.end(), port) == active.end()) return std::nullopt;
  ibv_port_attr attributes{};
  if (library_.query_port(context, port, &attributes) != 0 ||
      library_.query_device(context, &found.limits) != 0) {
    reject(found.device, "port " + std::to_string(port) + " no longer answers");
    return std::nullopt;
  }
  found.mtu = attributes.active_mtu == 0 ? 0 : std::uint32_t{128} << attributes.active_mtu;
  found.max_message_bytes = attributes.max_msg_sz;
  candidate.speed = speed_of(attributes);
  if (!choose_gid(attributes, candidate)) return std::nullopt;
  return candidate;
}

// Transport, GID index and rank.
bool Search::choose_gid(const ibv_port_attr& port, Candidate& candidate) {
  RdmaAddress& found = candidate.address;
  const bool is_four = found.address.ss_family == AF_INET;
  const bool is_link_local =
      !is_four &&
      IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6&>(found.address).sin6_addr);
  const ibv_device* const device = found.context->device;
  found.iwarp = device != nullptr && device->transport_type == IBV_TRANSPORT_IWARP;
  if (found.iwarp || port.link_layer == IBV_LINK_LAYER_INFINIBAND) {
    found.transport = found.iwarp ? "iWARP" : "InfiniBand";
    candidate.rank = found.iwarp ? 5 : 4;
    if (options_.gid_index < 0) return true;
    reject(found.device, found.host + " is reached by " + found.transport +
                             ", where a GID index does not name an address (leave gid_index out)");
    return false;
  }
  // The same GID stands there once for each version of RoCE; rdma_cm takes v2 where it can.
  const ibv_gid wanted = gid_of(found.address);
  for (int index = 0; index < port.gid_tbl_len; ++index) {
    ibv_gid_entry entry{};
    if (library_.query_gid(found.context, found.port, static_cast<std::uint32_t>(index), &entry) !=
        0) {
      continue;  // an empty place
    }
    if (std::memcmp(entry.gid.raw, wanted.raw, sizeof wanted.raw) != 0) continue;
    const bool v2 = entry.gid_type == IBV_GID_TYPE_ROCE_V2;
    if (found.gid_index >= 0 && !v2) continue;
    found.gid_index = index;
    found.transport = v2 ? "RoCE v2" : "RoCE v1";
    candidate.rank = !v2 ? 6 : is_four ? 1 : is_link_local ? 3 : 2;
    if (v2) break;
  }
  if (found.gid_index < 0) found.transport = "RoCE";
  if (options_.gid_index < 0 || options_.gid_index == found.gid_index) return true;
  reject(found.device, found.host + " has GID " + std::to_string(found.gid_index) + ", not " +
                           std::to_string(options_.gid_index) + ", which was requested");
  return false;
}

void Search::keep_listen_host(std::vector<Candidate>& candidates) const {
  const std::vector<sockaddr_storage> hosts = addresses_of(options_.listen_host);
  const auto is_other = [&](const Candidate& candidate) {
    return std::none_of(hosts.begin(), hosts.end(), [&](const sockaddr_storage& host) {
      return same_host(host, candidate.address.address);
    });
  };
  // The host of an interface without RDMA, any host or a loopback address: no restriction.
  if (std::all_of(candidates.begin(), candidates.end(), is_other)) return;
  std::erase_if(candidates, is_other);
}

Status Search::no_device(int error_number) const {
  return Status::system_error(
      StatusCode::kUnavailable, {"use verbs"}, "this host has no RDMA device",
      error_number == 0 ? ENODEV : error_number,
      "check what `rdma link` and `ibv_devices` list, and load the adapter's driver; in a "
      "container, add --device=/dev/infiniband; or leave verbs out of fabrics");
}

Status Search::nothing_fits() const {
  std::string cause;
  for (const auto& [device, reasons] : reasons_) {
    std::string why;
    for (const std::string& reason : reasons) why += (why.empty() ? "" : ", ") + reason;
    const auto active = active_ports_.find(device);
    if (active != active_ports_.end()) {
      for (const std::uint8_t port : active->second) {
        if (std::find(bound_.begin(), bound_.end(), std::pair(device, port)) != bound_.end()) {
          continue;
        }
        why += (why.empty() ? "" : ", ") + ("port " + std::to_string(port)) +
               " has no IP address that is up";
      }
    }
    if (!cause.empty()) cause += "; ";
    cause += device;
    cause += ": ";
    cause += why;
  }
  return Status::error(StatusCode::kUnavailable, {"use verbs"},
                       "no RDMA device is usable (" + cause + ")",
                       "bring a port's link up (`rdma link`), give its network interface an IP "
                       "address, or change the "
                       "options of verbs (device, port, gid_index)");
}

Result<std::vector<RdmaAddress>> Search::run() {
  int count = 0;
  errno = 0;
  devices_ = library_.get_devices(&count);
  if (devices_ == nullptr || count <= 0) return no_device(errno);
  for (int i = 0; i < count; ++i) look_at_device(devices_[i]);
  channel_ = library_.create_event_channel();
  if (channel_ == nullptr) {
    return Status::system_error(StatusCode::kUnavailable, {"use verbs"},
                                "rdma_create_event_channel", errno,
                                "load the kernel module rdma_ucm; in a container, add "
                                "--device=/dev/infiniband");
  }
  for (const sockaddr_storage& address : library_.addresses()) look_at_address(address);
  keep_listen_host(candidates_);
  if (candidates_.empty()) return nothing_fits();
  std::sort(candidates_.begin(), candidates_.end(), [](const Candidate& a, const Candidate& b) {
    return std::tuple(a.rank, b.speed, a.order) < std::tuple(b.rank, a.speed, b.order);
  });
  std::vector<RdmaAddress> found;
  for (Candidate& candidate : candidates_) found.push_back(std::move(candidate.address));
  return found;
}

}  // namespace

FabricOptions FabricOptions::of(const DeviceOptions& device) {
  FabricOptions options;
  static_cast<VerbsOptions&>(options) = device.verbs;
  options.listen_host = device.listen.host;
  options.completion_queues = device.pollers;
  // Every segment is registered with every fabric. Where others would do, verbs that cannot
  // register one would keep them from getting any; on its own its errors tell.
  if (device.fabrics.size() > 1) {
    options.must_register = std::max(device.segment_bytes, device.receive_segment_bytes);
  }
  return options;
}

Result<std::vector<RdmaAddress>> choose_addresses(VerbsLibrary& library,
                                                  const FabricOptions& options) {
  return Search(library, options).run();
}

std::string describe(const RdmaAddress& address) {
  std::string text =
      address.device + " port " + std::to_string(address.port) + ", " + address.transport;
  text += address.gid_index < 0 ? "" : ", GID " + std::to_string(address.gid_index);
  text += " (" + address.host + ")";
  if (address.mtu != 0) text += ", MTU " + std::to_string(address.mtu);
  return text;
}

}  // namespace farwrite::fabric::verbs
