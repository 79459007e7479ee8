// All that depends on gRPC's version: 1.51, with the private headers of its iomgr.
#include <grpc/support/port_platform.h>

#include "core/mutex.h"
#include "src/core/lib/iomgr/endpoint.h"
#include "src/core/lib/iomgr/error.h"
#include "src/core/lib/iomgr/ev_posix.h"
#include "src/core/lib/iomgr/exec_ctx.h"
#include "src/core/lib/iomgr/socket_utils_posix.h"

// Behind gRPC's headers.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/unique_fd.h"
#include "grpc/connection.h"
#include "grpc/handover.h"
#include "grpc/hooks.h"
#include "grpc/hub.h"
#include "grpc/polling.h"
#include "grpc/slices.h"
#include "grpc/transport_counts.h"

namespace farwrite::grpc {
namespace {

// gRPC runs closures at the end of such a context. Threads of ours have none.
class ClosureContext {
 public:
  ClosureContext() {
    if (grpc_core::ExecCtx::Get() != nullptr) return;
    callbacks_.emplace();
    closures_.emplace();
  }

 private:
  std::optional<grpc_core::ApplicationCallbackExecCtx> callbacks_;
  std::optional<grpc_core::ExecCtx> closures_;  // ends first
};

// A closure that runs a function once.
class OnceClosure {
 public:
  static grpc_closure* make(Below::Done done) {
    auto* const call = new OnceClosure(std::move(done));
    GRPC_CLOSURE_INIT(&call->closure_, &OnceClosure::run, call, grpc_schedule_on_exec_ctx);
    hand_over(call);
    return &call->closure_;
  }

 private:
  explicit OnceClosure(Below::Done done) : done_(std::move(done)) {}
  static void run(void* argument, grpc_error_handle error) {
    taken_back(argument);
    const std::unique_ptr<OnceClosure> call(static_cast<OnceClosure*>(argument));
    call->done_(std::move(error));
  }

  grpc_closure closure_{};
  Below::Done done_;
};

// Of a thread that gRPC calls.
class Closures final : public ThreadWork {
 public:
  bool is_due() override { return grpc_core::ExecCtx::Get()->HasWork(); }
  void run() override { grpc_core::ExecCtx::Get()->Flush(); }
};

// Has gRPC's poller wait on a pair's descriptor and deliver for it.
class PairDoorbell {
 public:
  static std::shared_ptr<PairDoorbell> make(const std::shared_ptr<Pair>& pair) {
    Result<int> descriptor = pair->streams().descriptor();
    if (!descriptor.ok()) return nullptr;
    // gRPC closes what it is given, and counts on epoll to forget it then. Of a duplicate epoll
    // would not, while the pair's own descriptor is open.
    core::UniqueFd own(::epoll_create1(EPOLL_CLOEXEC));
    epoll_event event{.events = EPOLLIN, .data = {.fd = descriptor.value()}};
    if (!own.valid() || ::epoll_ctl(own.get(), EPOLL_CTL_ADD, descriptor.value(), &event) != 0) {
      return nullptr;
    }
    const ClosureContext context;
    auto* const bell = new PairDoorbell(pair, grpc_fd_create(own.release(), "farwrite", false));
    bell->wait();
    return {bell, [](PairDoorbell* ended) {
              const ClosureContext ending;
              grpc_fd* const fd = ended->fd_;
              hand_over(ended);
              grpc_fd_shutdown(fd, absl::CancelledError("no connection uses it"));
            }};
  }
  grpc_fd* fd() const { return fd_; }

 private:
  PairDoorbell(std::shared_ptr<Pair> pair, grpc_fd* fd) : pair_(std::move(pair)), fd_(fd) {}
  void wait() {
    GRPC_CLOSURE_INIT(&closure_, &PairDoorbell::rang, this, grpc_schedule_on_exec_ctx);
    grpc_fd* const fd = fd_;
    hand_over(this);
    grpc_fd_notify_on_read(fd, &closure_);
  }
  // NOLINTNEXTLINE(performance-unnecessary-value-param): as gRPC calls it
  static void rang(void* argument, grpc_error_handle error) {
    auto* const bell = static_cast<PairDoorbell*>(argument);
    taken_back(bell);
    if (!error.ok()) {
      grpc_fd_orphan(bell->fd_, nullptr, nullptr, "farwrite");
      delete bell;
      return;
    }
    Closures closures;
    if (Hub* const hub = Hub::existing()) hub->polling().deliver(bell->pair_->streams(), closures);
    bell->wait();
  }

  const std::shared_ptr<Pair> pair_;
  grpc_fd* const fd_;
  grpc_closure closure_{};
};

class TcpEndpoint final : public Below {
 public:
  explicit TcpEndpoint(grpc_endpoint* tcp) : tcp_(tcp) {}

  void read(grpc_slice_buffer* into, bool urgent, int min_progress, Done done) override {
    const ClosureContext context;
    tcp_->vtable->read(tcp_, into, OnceClosure::make(std::move(done)), urgent, min_progress);
  }
  void write(grpc_slice_buffer* from, void* argument, int max_frame, Done done) override {
    const ClosureContext context;
    tcp_->vtable->write(tcp_, from, OnceClosure::make(std::move(done)), argument, max_frame);
  }
  void shutdown(absl::Status why) override {
    const ClosureContext context;
    tcp_->vtable->shutdown(tcp_, std::move(why));
  }
  void destroy() override {
    const ClosureContext context;
    tcp_->vtable->destroy(tcp_);
  }
  void schedule(grpc_closure* closure, absl::Status status) override {
    const ClosureContext context;
    grpc_core::ExecCtx::Run(DEBUG_LOCATION, closure, std::move(status));
  }
  absl::Status unavailable(const std::string& text) override {
    return grpc_error_set_int(GRPC_ERROR_CREATE(text), grpc_core::StatusIntProperty::kRpcStatus,
                              GRPC_STATUS_UNAVAILABLE);
  }
  std::shared_ptr<void> watch(const std::shared_ptr<Pair>& pair) override {
    return pair->watch([&] { return PairDoorbell::make(pair); });
  }

 private:
  grpc_endpoint* const tcp_;
};

// What gRPC sees: its TCP endpoint with another way for the bytes.
struct FarwriteEndpoint {
  grpc_endpoint base{};  // first: gRPC's pointer is to it
  grpc_endpoint* tcp = nullptr;
  std::shared_ptr<Connection> connection;
};

FarwriteEndpoint* self(grpc_endpoint* endpoint) {
  taken_back(endpoint);
  return reinterpret_cast<FarwriteEndpoint*>(endpoint);
}

// A call may outlast the endpoint: what it starts may end in another thread, which destroys it.
std::shared_ptr<Connection> connection(grpc_endpoint* endpoint) {
  std::shared_ptr<Connection> connection = self(endpoint)->connection;
  hand_over(&self(endpoint)->connection);
  return connection;
}

grpc_endpoint* tcp(grpc_endpoint* endpoint) {
  grpc_endpoint* const tcp = self(endpoint)->tcp;
  hand_over(&self(endpoint)->connection);
  return tcp;
}

const grpc_endpoint_vtable kVtable = {
    .read =
        [](grpc_endpoint* endpoint, grpc_slice_buffer* slices, grpc_closure* closure, bool urgent,
           int min_progress) { connection(endpoint)->read(slices, closure, urgent, min_progress); },
    .write =
        [](grpc_endpoint* endpoint, grpc_slice_buffer* slices, grpc_closure* closure,
           void* argument,
           int max_frame) { connection(endpoint)->write(slices, closure, argument, max_frame); },
    .add_to_pollset =
        [](grpc_endpoint* endpoint, grpc_pollset* pollset) {
          tcp(endpoint)->vtable->add_to_pollset(tcp(endpoint), pollset);
        },
    .add_to_pollset_set =
        [](grpc_endpoint* endpoint, grpc_pollset_set* pollsets) {
          tcp(endpoint)->vtable->add_to_pollset_set(tcp(endpoint), pollsets);
        },
    .delete_from_pollset_set =
        [](grpc_endpoint* endpoint, grpc_pollset_set* pollsets) {
          tcp(endpoint)->vtable->delete_from_pollset_set(tcp(endpoint), pollsets);
        },
    .shutdown =
        // NOLINTNEXTLINE(performance-unnecessary-value-param): as gRPC calls it
    [](grpc_endpoint* endpoint, grpc_error_handle why) { connection(endpoint)->shutdown(why); },
    .destroy =
        [](grpc_endpoint* endpoint) {
          FarwriteEndpoint* const ended = self(endpoint);
          taken_back(&ended->connection);  // by every other call
          ended->connection->destroy();
          delete ended;
        },
    .get_peer =
        [](grpc_endpoint* endpoint) { return tcp(endpoint)->vtable->get_peer(tcp(endpoint)); },
    .get_local_address =
        [](grpc_endpoint* endpoint) {
          return tcp(endpoint)->vtable->get_local_address(tcp(endpoint));
        },
    .get_fd = [](grpc_endpoint* endpoint) { return tcp(endpoint)->vtable->get_fd(tcp(endpoint)); },
    .can_track_err =
        [](grpc_endpoint* endpoint) {
          return tcp(endpoint)->vtable->can_track_err(tcp(endpoint));
        }};

// "127.0.0.1 80", with an IPv4 address in IPv6 as IPv4; empty for other families.
std::string text(const sockaddr_storage& address) {
  char host[INET6_ADDRSTRLEN] = {};
  in_port_t port = 0;
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    ::inet_ntop(AF_INET, &v4.sin_addr, host, sizeof(host));
    port = v4.sin_port;
  } else if (address.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
    const bool is_v4 = IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr);
    ::inet_ntop(is_v4 ? AF_INET : AF_INET6, &v6.sin6_addr.s6_addr[is_v4 ? 12 : 0], host,
                sizeof(host));
    port = v6.sin6_port;
  } else {
    return {};
  }
  std::string text = host;
  text += ' ';
  text += std::to_string(ntohs(port));
  return text;
}

SocketAddresses addresses(int descriptor) {
  SocketAddresses found;
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (::getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &size) == 0) {
    found.local = text(address);
  }
  size = sizeof(address);
  if (::getpeername(descriptor, reinterpret_cast<sockaddr*>(&address), &size) == 0) {
    found.remote = text(address);
  }
  return found;
}

// The socket is idle once the bytes have left it, and must live as long as the connection.
void keep_alive(int descriptor) {
  const int on = 1;
  const int idle_seconds = 60;
  ::setsockopt(descriptor, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
  ::setsockopt(descriptor, IPPROTO_TCP, TCP_KEEPIDLE, &idle_seconds, sizeof(idle_seconds));
}

// All that live, for the end of the process.
class Connections {
 public:
  void add(const std::shared_ptr<Connection>& connection) {
    const core::Lock lock(mutex_);
    // Rarely, so that a connection costs the same however many there are.
    if (all_.size() >= tidy_at_) {
      std::erase_if(all_, [](const auto& weak) { return weak.expired(); });
      tidy_at_ = std::max(kLeast, 2 * all_.size());
    }
    all_.push_back(connection);
  }
  std::vector<std::weak_ptr<Connection>> all() {
    const core::Lock lock(mutex_);
    return all_;
  }

 private:
  static constexpr std::size_t kLeast = 64;

  core::Mutex mutex_{core::LockRank::kProgram};
  std::vector<std::weak_ptr<Connection>> all_ FW_GUARDED_BY(mutex_);
  std::size_t tidy_at_ FW_GUARDED_BY(mutex_) = kLeast;
};

Connections& connections() {
  static auto* const connections = new Connections;
  return *connections;
}

void* tcp_create(TcpCreate original, void* fd, const void* options, PeerText peer) {
  const int descriptor = grpc_fd_wrapped_fd(static_cast<grpc_fd*>(fd));
  auto* const tcp = static_cast<grpc_endpoint*>(original(fd, options, peer));
  keep_alive(descriptor);
  auto* const endpoint = new FarwriteEndpoint;
  endpoint->base.vtable = &kVtable;
  endpoint->tcp = tcp;
  endpoint->connection =
      std::make_shared<Connection>(std::make_unique<TcpEndpoint>(tcp), addresses(descriptor));
  connections().add(endpoint->connection);
  hand_over(endpoint);
  return &endpoint->base;
}

bool slice_malloc(std::size_t bytes, grpc_slice* slice) {
  Hub* const hub = Hub::existing();
  return hub != nullptr && allocate_slice(hub->device(), bytes, slice);
}

// Before the thread waits for the events of a completion queue. With the pollset's lock, as gRPC
// calls grpc_pollset_work().
bool before_work(void* pollset, std::int64_t deadline) {
  Hub* const hub = Hub::existing();
  if (hub == nullptr || grpc_core::ExecCtx::Get() == nullptr) return false;
  const auto until = grpc_core::Timestamp::FromMillisecondsAfterProcessEpoch(deadline);
  if (until <= grpc_core::Timestamp::Now() || !hub->polling().begins(pollset)) return false;
  // A pollset begins with its lock in all engines of this version.
  auto* const mutex = static_cast<gpr_mu*>(pollset);
  gpr_mu_unlock(mutex);
  Closures closures;
  const bool found = hub->polling().look_for_queue(closures);
  gpr_mu_lock(mutex);
  return found;
}

bool has_event(void* pollset) {
  Hub* const hub = Hub::existing();
  return hub != nullptr && hub->polling().has_event(pollset);
}

bool before_sleep() {
  Hub* const hub = Hub::existing();
  // Another poller of the program is none of gRPC's business.
  if (hub == nullptr || grpc_core::ExecCtx::Get() == nullptr) return false;
  Closures closures;
  return hub->polling().before_sleep(closures);
}

void at_exit() {
  if (Hub* const hub = Hub::existing()) {
    for (const auto& weak : connections().all()) {
      if (const auto connection = weak.lock()) connection->finish_stream();
    }
    hub->drain(std::chrono::seconds(2));
    hub->report_pairs();
  }
  const char* const file = std::getenv("FARWRITE_GRPC_STATS");
  if (file == nullptr) return;
  // One write, so that the lines of several processes do not mix.
  std::ofstream(file, std::ios::app) << TransportCounts::get().to_json() + "\n" << std::flush;
}

constexpr Hooks kHooks = {.tcp_create = tcp_create,
                          .slice_malloc = slice_malloc,
                          .before_sleep = before_sleep,
                          .before_work = before_work,
                          .has_event = has_event,
                          .at_exit = at_exit};

}  // namespace
}  // namespace farwrite::grpc

extern "C" __attribute__((visibility("default"))) const farwrite::grpc::Hooks*
farwrite_grpc_hooks() {
  return &farwrite::grpc::kHooks;
}
