#include "fabric/tcp/tcp_fabric.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <limits>
#include <utility>

#include "core/log.h"
#include "core/tls_stream.h"
#include "fabric/tcp/frame.h"
#include "fabric/tcp/tcp_link.h"

namespace farwrite::fabric::tcp {
namespace {

// Connections that have not found their handshake yet. More than this at once is no honest use.
constexpr std::size_t kMaxWaiting = 1024;
constexpr std::chrono::seconds kWaitForHandshake(10);
constexpr std::chrono::milliseconds kAskAgain(20);

Result<std::uint16_t> parse_port(const std::string& address, const std::string& peer) {
  std::uint16_t port = 0;
  const char* const end = address.data() + address.size();
  const auto [stop, failed] = std::from_chars(address.data(), end, port);
  if (failed == std::errc() && stop == end && port != 0) return port;
  return Status::error(StatusCode::kProtocolError, {"connect", peer, "tcp"},
                       "the peer's tcp address is no port", "run the same Farwrite release");
}

}  // namespace

Result<std::unique_ptr<Fabric>> TcpFabric::create(core::EventLoop& loop,
                                                  const TcpOptions& options) {
  auto listener = core::listen_tcp(options.listen);
  if (!listener.ok()) return listener.status();
  std::unique_ptr<TcpFabric> fabric(new TcpFabric(loop, options, *std::move(listener)));
  FARWRITE_RETURN_IF_ERROR(
      loop.add_fd(fabric->listener_.socket.get(), EPOLLIN,
                  [self = fabric.get()](std::uint32_t) { self->on_connection(); }));
  return std::unique_ptr<Fabric>(std::move(fabric));
}

TcpFabric::TcpFabric(core::EventLoop& loop, const TcpOptions& options, core::Listener listener)
    : loop_(loop), options_(options), listener_(std::move(listener)) {}

TcpFabric::~TcpFabric() {
  loop_.remove_fd(listener_.socket.get());
  std::list<Arrival> arrivals;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    arrivals.swap(arrivals_);
  }
  for (const Arrival& arrival : arrivals) loop_.remove_fd(arrival.socket.get());
}

const Capabilities& TcpFabric::capabilities() const {
  static const Capabilities capabilities = [] {
    Capabilities tcp;
    tcp.max_write_bytes = std::numeric_limits<std::uint64_t>::max();
    tcp.max_message_bytes = kMaxMessageBytes;
    tcp.has_immediate = true;
    return tcp;
  }();
  return capabilities;
}

Result<std::unique_ptr<Link>> TcpFabric::attach(const AttachRequest& request) {
  std::vector<std::unique_ptr<core::ByteStream>> streams;
  for (std::uint32_t lane = 0; lane < request.lanes; ++lane) {
    const auto number = static_cast<std::uint16_t>(lane);
    auto socket = request.connecting ? connect_lane(request, number) : accept_lane(request, number);
    if (!socket.ok()) return socket.status();
    auto stream = make_stream(*std::move(socket), request, number);
    if (!stream.ok()) return stream.status();
    streams.push_back(*std::move(stream));
  }
  auto link = TcpLink::create(std::move(streams), request, exports_);
  if (!link.ok()) return link.status();
  return std::unique_ptr<Link>(*std::move(link));
}

Result<std::unique_ptr<core::ByteStream>> TcpFabric::make_stream(core::UniqueFd socket,
                                                                 const AttachRequest& request,
                                                                 std::uint16_t lane) const {
  core::set_no_delay(socket.get());
  core::set_keepalive(socket.get(), options_.host_timeout);
  if (!request.encrypt) return core::make_plain_stream(std::move(socket));
  const core::Digest key = core::tls_key({request.secret.data(), request.secret.size()},
                                         "farwrite tls lane " + std::to_string(lane));
  auto stream = core::TlsStream::create(
      std::move(socket), key,
      request.connecting ? core::TlsSide::kConnecting : core::TlsSide::kAccepting);
  if (!stream.ok()) return stream.status();
  FARWRITE_RETURN_IF_ERROR((*stream)->establish(
      request.deadline, "encrypt lane " + std::to_string(lane) + " to " + request.peer_name));
  return stream;
}

Result<core::UniqueFd> TcpFabric::connect_lane(const AttachRequest& request,
                                               std::uint16_t lane) const {
  const std::string operation = "connect lane " + std::to_string(lane) + " to " + request.peer_name;
  auto port = parse_port(request.peer_address, request.peer_name);
  if (!port.ok()) return port.status();
  // A firewall that drops packets answers nothing: leave time to tell the peer.
  const core::Deadline half = core::Deadline::after(
      request.deadline.is_never() ? std::chrono::seconds(10) : request.deadline.remaining() / 2);
  auto socket = core::connect_tcp({request.peer_host, *port}, half);
  if (!socket.ok()) {
    return Status::error(
        socket.status().code(), {operation, request.peer_name, "tcp"},
        "its data port " + request.peer_address +
            " cannot be reached: " + socket.status().message(),
        "open that port in the firewall; data_port of the peer's device chooses it");
  }
  const auto join = JoinMessage::of(request.secret, lane, request.lanes).to_bytes();
  FARWRITE_RETURN_IF_ERROR(
      core::send_all(socket->get(), {join.data(), join.size()}, request.deadline, operation));
  std::array<std::byte, JoinedMessage::kBytes> answer{};
  FARWRITE_RETURN_IF_ERROR(core::receive_all(socket->get(), {answer.data(), answer.size()},
                                             request.deadline, operation));
  auto joined = JoinedMessage::from_bytes({answer.data(), answer.size()});
  if (!joined.ok()) return joined.status();
  const JoinedMessage expected = JoinedMessage::of(request.secret, lane);
  if (joined->lane != lane ||
      !core::constant_time_equal({joined->proof.data(), joined->proof.size()},
                                 {expected.proof.data(), expected.proof.size()})) {
    return Status::error(StatusCode::kUnauthenticated, {operation, request.peer_name, "tcp"},
                         "somebody else answers at the peer's tcp port",
                         "see what listens at port " + request.peer_address + " there");
  }
  return socket;
}

Result<core::UniqueFd> TcpFabric::accept_lane(const AttachRequest& request, std::uint16_t lane) {
  const auto expected = JoinMessage::of(request.secret, lane, request.lanes).to_bytes();
  core::UniqueFd socket;
  {
    std::unique_lock<std::mutex> lock(mutex_);
    while (true) {
      const auto found = std::find_if(arrivals_.begin(), arrivals_.end(), [&](const Arrival& one) {
        return one.complete() && core::constant_time_equal({one.bytes.data(), one.bytes.size()},
                                                           {expected.data(), expected.size()});
      });
      if (found != arrivals_.end()) {
        socket = std::move(found->socket);
        arrivals_.erase(found);
        break;
      }
      const bool given_up = request.abandoned && request.abandoned();
      if (given_up || request.deadline.expired()) {
        return Status::error(StatusCode::kUnavailable, {"attach", request.peer_name, "tcp"},
                             given_up ? "the peer gave up on tcp"
                                      : "the peer did not connect to the tcp port in time",
                             "see the peer's log; a firewall may keep port " + address() +
                                 " closed: choose it with data_port, and open it");
      }
      arrived_.wait_for(lock, kAskAgain);
    }
  }
  const auto joined = JoinedMessage::of(request.secret, lane).to_bytes();
  FARWRITE_RETURN_IF_ERROR(core::send_all(socket.get(), {joined.data(), joined.size()},
                                          request.deadline, "attach over tcp"));
  return socket;
}

void TcpFabric::on_connection() {
  core::UniqueFd socket(
      ::accept4(listener_.socket.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket.valid()) {
    if (errno == EMFILE || errno == ENFILE) spare_fd_.turn_away(listener_.socket.get());
    return;
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  drop_stale_locked();
  if (arrivals_.size() >= kMaxWaiting) {
    core::log(core::LogLevel::kWarning,
              "tcp: too many connections wait for their handshake; the oldest was dropped");
    loop_.remove_fd(arrivals_.front().socket.get());
    arrivals_.pop_front();
  }
  const int fd = socket.get();
  Arrival& arrival = arrivals_.emplace_back();
  arrival.socket = std::move(socket);
  arrival.deadline = core::Deadline::after(kWaitForHandshake);
  const Status watched = loop_.add_fd(fd, EPOLLIN, [this, fd](std::uint32_t) { on_readable(fd); });
  if (!watched.ok()) arrivals_.pop_back();
}

void TcpFabric::on_readable(int fd) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto arrival = std::find_if(arrivals_.begin(), arrivals_.end(),
                                    [fd](const Arrival& one) { return one.socket.get() == fd; });
  if (arrival == arrivals_.end()) return;
  const ssize_t count = ::recv(fd, arrival->bytes.data() + arrival->received,
                               arrival->bytes.size() - arrival->received, MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count <= 0) {  // it left again
    loop_.remove_fd(fd);
    arrivals_.erase(arrival);
    return;
  }
  arrival->received += static_cast<std::size_t>(count);
  if (!arrival->complete()) return;
  loop_.remove_fd(fd);
  const auto join = JoinMessage::from_bytes({arrival->bytes.data(), arrival->bytes.size()});
  if (!join.ok()) {
    core::log(core::LogLevel::kWarning, join.status().message());
    arrivals_.erase(arrival);
    return;
  }
  arrived_.notify_all();
}

void TcpFabric::drop_stale_locked() {
  std::erase_if(arrivals_, [this](const Arrival& arrival) {
    if (!arrival.deadline.expired()) return false;
    loop_.remove_fd(arrival.socket.get());
    return true;
  });
}

}  // namespace farwrite::fabric::tcp
