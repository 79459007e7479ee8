#include "fabric/verbs/verbs_fabric.h"

#include <netdb.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <limits>
#include <utility>
#include <vector>

#include "core/log.h"
#include "core/mutex.h"
#include "fabric/topology.h"
#include "fabric/verbs/lane_greeting.h"

namespace farwrite::fabric::verbs {
namespace {

constexpr int kBacklog = 128;
// Connections that have not found their handshake yet. More than this at once is no honest use.
constexpr std::size_t kMaxWaiting = 1024;
constexpr std::chrono::seconds kWaitForHandshake(10);
constexpr std::chrono::seconds kResolve(5);
constexpr std::chrono::seconds kConnect(10);  // where the caller sets no limit

Result<sockaddr_storage> parse_address(const std::string& text, const std::string& peer) {
  const std::size_t space = text.find(' ');
  sockaddr_storage address{};
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (space != std::string::npos &&
      ::getaddrinfo(text.substr(0, space).c_str(), text.substr(space + 1).c_str(), &hints,
                    &found) == 0) {
    std::copy_n(reinterpret_cast<const char*>(found->ai_addr), found->ai_addrlen,
                reinterpret_cast<char*>(&address));
    ::freeaddrinfo(found);
    return address;
  }
  return Status::error(StatusCode::kProtocolError, {"connect", peer, "verbs"},
                       "the peer's verbs address is malformed: " + text,
                       "run the same Farwrite release");
}

int to_milliseconds(core::Deadline deadline) {
  const int left = deadline.poll_timeout_ms();
  const int most = static_cast<int>(std::chrono::milliseconds(kResolve).count());
  return left < 0 ? most : std::clamp(left, 1, most);
}

}  // namespace

Result<std::unique_ptr<Fabric>> VerbsFabric::create(core::EventLoop& loop,
                                                    const FabricOptions& options) {
  auto adapter = Adapter::create(options);
  if (!adapter.ok()) return adapter.status();
  std::unique_ptr<VerbsFabric> fabric(new VerbsFabric(loop, *std::move(adapter)));
  FARWRITE_RETURN_IF_ERROR(fabric->events_.start());
  FARWRITE_RETURN_IF_ERROR(fabric->listen());
  const bool hides = fabric->adapter_->library().hides_from_children();
  core::log(
      hides ? core::LogLevel::kWarning : core::LogLevel::kInfo,
      hides ? "verbs: on this kernel, forked children do not inherit user memory that an adapter "
              "has registered. A child that reads such memory ends with SIGSEGV. It can read "
              "memory that a device allocated. Use Linux 5.12 or newer, or the spawn start method"
            : "verbs: a forked child can read all memory that this process had, registered or not");
  return std::unique_ptr<Fabric>(std::move(fabric));
}

Result<std::vector<std::string>> VerbsFabric::describe(const VerbsOptions& user) {
  FabricOptions options;
  static_cast<VerbsOptions&>(options) = user;
  VerbsLibrary* library = options.library;
  if (library == nullptr) {
    auto opened = VerbsLibrary::open();
    if (!opened.ok()) return opened.status();
    library = *opened;
  }
  int count = 0;
  ibv_context** const devices = library->get_devices(&count);
  auto addresses = choose_addresses(*library, options);
  std::vector<std::string> lines;
  if (addresses.ok()) {
    for (const RdmaAddress& address : *addresses) lines.push_back(verbs::describe(address));
  }
  if (devices != nullptr) library->free_devices(devices);
  if (!addresses.ok()) return addresses.status();
  return lines;
}

VerbsFabric::VerbsFabric(core::EventLoop& loop, std::shared_ptr<Adapter> adapter)
    : loop_(loop),
      adapter_(std::move(adapter)),
      events_(loop, adapter_->library(), adapter_->address().context,
              [this](const std::string& sentence) { adapter_->failed(sentence); }) {
  capabilities_.max_write_bytes = adapter_->limits().chunk_bytes;
  capabilities_.max_message_bytes = kMaxMessageBytes;
  capabilities_.has_immediate = adapter_->has_immediate();
  capabilities_.has_atomics = adapter_->address().limits.atomic_cap != IBV_ATOMIC_NONE;
  // Peers read a GPU's memory by one-sided reads, as in the paper; they write only host memory,
  // because what an adapter writes reaches a GPU in no order that a notification could promise.
  capabilities_.gpu_exports = true;
  capabilities_.may_refuse_segments = true;  // an adapter registers so much and no more
  capabilities_.numa_node =
      Topology(adapter_->library().sysfs()).node_near(adapter_->address().device);
  capabilities_.whole_message_order = adapter_->data_in_order();
  // Bytes land without our CPU, but notifications, credits and revocations want a look now and
  // then, so pollers serve the lanes.
  capabilities_.cpu_free_target = false;
}

VerbsFabric::~VerbsFabric() {
  if (watched_) loop_.remove_fd(cm_->fd());
  std::list<ConnectRequest> requests;
  {
    const core::Lock lock(mutex_);
    requests.swap(connect_requests_);
  }
  for (const ConnectRequest& connect : requests) refuse(connect.id);
  if (listener_ != nullptr) (void)adapter_->library().destroy_id(listener_);
}

Status VerbsFabric::listen() {
  VerbsLibrary& library = adapter_->library();
  auto channel = CmChannel::create(library);
  if (!channel.ok()) return channel.status();
  cm_ = *std::move(channel);
  sockaddr_storage address = adapter_->address().address;
  int error = library.create_id(cm_->get(), &listener_);
  if (error == 0) error = library.bind_addr(listener_, reinterpret_cast<sockaddr*>(&address));
  if (error == 0) error = library.listen(listener_, kBacklog);
  if (error != 0) {
    return Status::system_error(StatusCode::kUnavailable, {"open a device", "", "verbs"},
                                "rdma_cm does not listen on " + adapter_->address().host, error,
                                "check the address with rping -s -a");
  }
  FARWRITE_RETURN_IF_ERROR(
      loop_.add_fd(cm_->fd(), EPOLLIN, [this](std::uint32_t) { on_cm_event(); }));
  watched_ = true;
  return Status();
}

std::string VerbsFabric::address() const {
  return adapter_->address().host + " " + std::to_string(adapter_->library().local_port(listener_));
}

Result<std::uint64_t> VerbsFabric::register_segment(
    const std::shared_ptr<memory::Segment>& segment) {
  if (segment->gpu() != nullptr) FARWRITE_RETURN_IF_ERROR(check_reach(*segment->gpu()));
  auto added = adapter_->registrations().add_segment(
      segment, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
  if (!added.ok()) return added.status();
  segment->at_end([adapter = std::weak_ptr<Adapter>(adapter_), gone = segment.get()] {
    if (const auto kept = adapter.lock()) kept->registrations().remove_segment(*gone);
  });
  const auto base = reinterpret_cast<std::uintptr_t>(segment->base());
  return SegmentKey{base, (*added)->remote_key()}.pack();
}

Status VerbsFabric::check_reach(const gpu::Gpu& gpu) const {
  const Topology topology(adapter_->library().sysfs());
  const std::string& device = adapter_->address().device;
  const std::vector<PciDevice> gpus = topology.gpus();
  const auto found = std::find_if(gpus.begin(), gpus.end(), [&](const PciDevice& candidate) {
    return candidate.address == gpu.pci_address();
  });
  if (found != gpus.end() && reaches_directly(topology.adapter(device), *found)) return Status();
  return Status::error(
      StatusCode::kUnsupported, {"register memory of a GPU", "", "verbs"},
      device + " and " + gpu.name() + " (" + gpu.pci_address() +
          ") are not below one PCIe host bridge",
      "use an adapter below the GPU's host bridge (farwrite info), or host memory");
}

rdma_conn_param VerbsFabric::parameters(std::uint8_t reads) const {
  rdma_conn_param parameters{};
  parameters.responder_resources = reads;
  parameters.initiator_depth = reads;
  parameters.flow_control = 1;
  parameters.retry_count = std::min<std::uint8_t>(adapter_->options().retry_count, 7);
  parameters.rnr_retry_count = std::min<std::uint8_t>(adapter_->options().rnr_retry_count, 7);
  return parameters;
}

Status VerbsFabric::refused(std::string_view operation, const AttachRequest& request,
                            std::string_view what, int error) const {
  return Status::system_error(StatusCode::kUnavailable, {operation, request.peer_name, "verbs"},
                              what, error,
                              "check that the hosts' RDMA interfaces reach each other (rping)");
}

Result<std::unique_ptr<Link>> VerbsFabric::attach(const AttachRequest& asked) {
  if (asked.encrypt) {
    return Status::error(StatusCode::kUnavailable, {"connect", asked.peer_name, "verbs"},
                         "the verbs fabric cannot encrypt",
                         "add tcp to fabrics, or turn encryption off");
  }
  AttachRequest request = asked;
  // A network that drops RDMA's packets, as a firewall does, answers nothing. That must leave time
  // to tell the peer, which waits for as long as we do, and for another fabric.
  if (request.connecting) {
    request.deadline = core::Deadline::after(
        asked.deadline.is_never() ? kConnect : asked.deadline.remaining() * 2 / 3);
  }
  auto link = VerbsLink::create(loop_, adapter_, request);
  if (!link.ok()) return link.status();
  for (std::uint32_t lane = 0; lane < request.lanes; ++lane) {
    const auto number = static_cast<std::uint16_t>(lane);
    FARWRITE_RETURN_IF_ERROR(request.connecting ? connect_lane(**link, request, number)
                                                : accept_lane(**link, request, number));
  }
  FARWRITE_RETURN_IF_ERROR((*link)->go_live());
  return std::unique_ptr<Link>(*std::move(link));
}

Status VerbsFabric::connect_lane(VerbsLink& link, const AttachRequest& request,
                                 std::uint16_t lane) {
  VerbsLibrary& library = adapter_->library();
  const std::string operation = "connect lane " + std::to_string(lane);
  auto target = parse_address(request.peer_address, request.peer_name);
  if (!target.ok()) return target.status();
  rdma_cm_id* id = nullptr;
  if (const int error = library.create_id(link.cm().get(), &id); error != 0) {
    return refused(operation, request, "no rdma_cm id", error);
  }
  const auto resolve = [&]() -> Status {
    sockaddr_storage source = adapter_->address().address;
    if (source.ss_family != target->ss_family) {
      return refused(operation, request, "the peer has another kind of address", EAFNOSUPPORT);
    }
    int error = library.resolve_addr(id, reinterpret_cast<sockaddr*>(&source),
                                     reinterpret_cast<sockaddr*>(&*target),
                                     to_milliseconds(request.deadline));
    if (error != 0) return refused(operation, request, "its address does not resolve", error);
    FARWRITE_RETURN_IF_ERROR(link.cm()
                                 .expect(RDMA_CM_EVENT_ADDR_RESOLVED, id, request.deadline,
                                         request.abandoned, operation, request.peer_name)
                                 .status());
    error = library.resolve_route(id, to_milliseconds(request.deadline));
    if (error != 0) return refused(operation, request, "no route", error);
    return link.cm()
        .expect(RDMA_CM_EVENT_ROUTE_RESOLVED, id, request.deadline, request.abandoned, operation,
                request.peer_name)
        .status();
  };
  if (Status resolved = resolve(); !resolved.ok()) {
    (void)library.destroy_id(id);
    return resolved;
  }
  auto added = link.add_lane(id);
  if (!added.ok()) return added.status();
  const auto join =
      JoinMessage::of(request.secret, lane, static_cast<std::uint16_t>(request.lanes)).to_bytes();
  rdma_conn_param parameters = this->parameters(adapter_->limits().reads);
  parameters.private_data = join.data();
  parameters.private_data_len = static_cast<std::uint8_t>(join.size());
  if (const int error = library.connect(id, &parameters); error != 0) {
    return refused(operation, request, "rdma_cm does not connect", error);
  }
  FARWRITE_RETURN_IF_ERROR(link.cm()
                               .expect(RDMA_CM_EVENT_ESTABLISHED, id, request.deadline,
                                       request.abandoned, operation, request.peer_name)
                               .status());
  return LaneGreeting(link, **added, lane, request).exchange();
}

Result<VerbsFabric::ConnectRequest> VerbsFabric::wait_for_connect_request(
    const AttachRequest& request, std::uint16_t lane) {
  const JoinMessage expected =
      JoinMessage::of(request.secret, lane, static_cast<std::uint16_t>(request.lanes));
  core::Lock lock(mutex_);
  while (true) {
    const auto found =
        std::find_if(connect_requests_.begin(), connect_requests_.end(),
                     [&](const ConnectRequest& one) { return one.join == expected; });
    if (found != connect_requests_.end()) {
      ConnectRequest connect = *found;
      connect_requests_.erase(found);
      return connect;
    }
    const bool given_up = request.abandoned && request.abandoned();
    if (given_up || request.deadline.expired()) {
      return Status::error(StatusCode::kUnavailable, {"attach", request.peer_name, "verbs"},
                           given_up ? "the peer stopped connecting over verbs"
                                    : "the peer did not connect by rdma_cm in time",
                           "see the peer's log; a firewall may drop RoCE v2 (UDP port 4791)");
    }
    arrived_.wait_for(mutex_,
                      std::min<std::chrono::nanoseconds>(kAskAgain, request.deadline.remaining()));
  }
}

Status VerbsFabric::accept_lane(VerbsLink& link, const AttachRequest& request, std::uint16_t lane) {
  VerbsLibrary& library = adapter_->library();
  const std::string operation = "accept lane " + std::to_string(lane);
  auto connect = wait_for_connect_request(request, lane);
  if (!connect.ok()) return connect.status();
  if (const int error = library.migrate_id(connect->id, link.cm().get()); error != 0) {
    refuse(connect->id);
    return refused(operation, request, "rdma_cm does not pass the connection on", error);
  }
  rdma_cm_id* const id = connect->id;
  auto added = link.add_lane(id);
  if (!added.ok()) return added.status();
  rdma_conn_param parameters = this->parameters(
      std::min(adapter_->limits().reads, std::max<std::uint8_t>(1, connect->reads)));
  if (const int error = library.accept(id, &parameters); error != 0) {
    return refused(operation, request, "rdma_cm does not accept", error);
  }
  FARWRITE_RETURN_IF_ERROR(link.cm()
                               .expect(RDMA_CM_EVENT_ESTABLISHED, id, request.deadline,
                                       request.abandoned, operation, request.peer_name)
                               .status());
  return LaneGreeting(link, **added, lane, request).exchange();
}

void VerbsFabric::refuse(rdma_cm_id* id) {
  (void)adapter_->library().reject(id);
  (void)adapter_->library().destroy_id(id);
}

void VerbsFabric::on_cm_event() {
  while (std::optional<CmEvent> event = cm_->take()) {
    std::vector<rdma_cm_id*> unwanted;
    if (event->type == RDMA_CM_EVENT_CONNECT_REQUEST) {
      auto join = JoinMessage::from_bytes({event->private_data.data(), event->private_data.size()});
      if (!join.ok()) {
        core::log(core::LogLevel::kWarning, join.status().message());
        unwanted.push_back(event->id);
      } else {
        const core::Lock lock(mutex_);
        for (auto one = connect_requests_.begin(); one != connect_requests_.end();) {
          const bool drop = one->deadline.expired() || connect_requests_.size() >= kMaxWaiting;
          if (drop) unwanted.push_back(one->id);
          one = drop ? connect_requests_.erase(one) : std::next(one);
        }
        connect_requests_.push_back({event->id, *join, event->responder_resources,
                                     core::Deadline::after(kWaitForHandshake)});
      }
    } else if (event->id != nullptr && event->id != listener_) {
      // It left again before any thread took it; once taken, its events go elsewhere.
      const core::Lock lock(mutex_);
      std::erase_if(connect_requests_, [&](const ConnectRequest& one) {
        if (one.id != event->id) return false;
        unwanted.push_back(one.id);
        return true;
      });
    }
    for (rdma_cm_id* const id : unwanted) refuse(id);
    arrived_.notify_all();
  }
}

}  // namespace farwrite::fabric::verbs
