#include "fabric/tcp/tcp_fabric.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <limits>
#include <utility>

#include "core/mutex.h"
#include "core/tls_stream.h"
#include "fabric/tcp/frame.h"
#include "fabric/tcp/join.h"
#include "fabric/tcp/tcp_link.h"

namespace farwrite::fabric::tcp {
namespace {

constexpr std::string_view kAttach = "attach over tcp";

Result<std::string> origin_of(int socket) {
  std::string host = core::peer_host(socket);
  if (host.empty()) return core::connection_lost(kAttach, ENOTCONN);
  return host;
}

// JOIN as it comes: the whole of it is the key.
Result<bool> read_join(int socket, std::vector<std::byte>& key) {
  std::array<std::byte, JoinMessage::kBytes> bytes;
  const ssize_t count = ::recv(socket, bytes.data(), bytes.size() - key.size(), MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (count <= 0) return core::connection_lost(kAttach, count < 0 ? errno : 0);
  key.insert(key.end(), bytes.begin(), bytes.begin() + count);
  if (key.size() < JoinMessage::kBytes) return false;
  auto join = JoinMessage::from_bytes({key.data(), key.size()});
  if (!join.ok()) return join.status();
  return true;
}

Result<std::uint16_t> parse_port(const std::string& address, const std::string& peer) {
  std::uint16_t port = 0;
  const char* const end = address.data() + address.size();
  const auto [stop, failed] = std::from_chars(address.data(), end, port);
  if (failed == std::errc() && stop == end && port != 0) return port;
  return Status::error(StatusCode::kProtocolError, {"connect", peer, "tcp"},
                       "the peer's tcp address is not a port", "run the same Farwrite release");
}

}  // namespace

FabricOptions FabricOptions::of(const DeviceOptions& device) {
  FabricOptions options;
  static_cast<TcpOptions&>(options) = device.tcp;
  options.listen_host = device.listen.host;
  options.port_range = device.port_range;
  options.host_timeout = device.host_timeout;
  options.handshake_timeout = device.handshake_timeout;
  return options;
}

Result<std::unique_ptr<Fabric>> TcpFabric::create(core::EventLoop& loop,
                                                  const FabricOptions& options) {
  std::unique_ptr<TcpFabric> fabric(new TcpFabric(loop, options));
  if (options.data_port != 0) FARWRITE_RETURN_IF_ERROR(fabric->make_reachable());
  return std::unique_ptr<Fabric>(std::move(fabric));
}

Status TcpFabric::make_reachable() {
  const core::Lock lock(mutex_);
  if (lobby_ != nullptr) return Status();
  auto listener = core::listen_tcp({options_.listen_host, options_.data_port}, options_.port_range);
  if (!listener.ok()) return listener.status();
  auto lobby = Lobby::open(loop_, listener->socket.get(), options_.handshake_timeout,
                           {"tcp", origin_of, read_join});
  if (!lobby.ok()) return lobby.status();
  listener_ = *std::move(listener);
  lobby_ = *std::move(lobby);
  return Status();
}

std::string TcpFabric::address() const {
  const core::Lock lock(mutex_);
  return std::to_string(listener_.endpoint.port);
}

const Capabilities& TcpFabric::capabilities() const {
  static const Capabilities capabilities = [] {
    Capabilities tcp;
    tcp.max_write_bytes = std::numeric_limits<std::uint64_t>::max();
    tcp.max_message_bytes = kMaxMessageBytes;
    tcp.has_immediate = true;
    tcp.serves_reads = true;
    return tcp;
  }();
  return capabilities;
}

Result<std::unique_ptr<Link>> TcpFabric::attach(const AttachRequest& request) {
  if (!request.connecting) FARWRITE_RETURN_IF_ERROR(make_reachable());
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
  const std::string step = "connect lane " + std::to_string(lane);
  const std::string operation = step + " to " + request.peer_name;
  auto port = parse_port(request.peer_address, request.peer_name);
  if (!port.ok()) return port.status();
  // A firewall that drops packets answers nothing: leave time to tell the peer.
  const core::Deadline half = core::Deadline::after(
      request.deadline.is_never() ? std::chrono::seconds(10) : request.deadline.remaining() / 2);
  auto socket = core::connect_tcp({request.peer_host, *port}, half);
  if (socket.status().code() == StatusCode::kResourceExhausted) return socket.status();
  if (!socket.ok()) {
    return Status::error(
        socket.status().code(), {step, request.peer_name, "tcp"},
        "its data port " + request.peer_address +
            " cannot be reached: " + socket.status().message(),
        "open that port in the firewall; data_port or port_range of the peer's device chooses it");
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
    return Status::error(StatusCode::kUnauthenticated, {step, request.peer_name, "tcp"},
                         "another program answers at the peer's tcp port",
                         "check which program listens at port " + request.peer_address + " there");
  }
  return socket;
}

Result<core::UniqueFd> TcpFabric::accept_lane(const AttachRequest& request, std::uint16_t lane) {
  const auto expected = JoinMessage::of(request.secret, lane, request.lanes).to_bytes();
  auto socket = lobby().take({expected.data(), expected.size()}, request,
                             "see the peer's log; a firewall may keep port " + address() +
                                 " closed: choose it with data_port or port_range, and open it");
  if (!socket.ok()) return socket.status();
  const auto joined = JoinedMessage::of(request.secret, lane).to_bytes();
  FARWRITE_RETURN_IF_ERROR(
      core::send_all(socket->get(), {joined.data(), joined.size()}, request.deadline, kAttach));
  return socket;
}

}  // namespace farwrite::fabric::tcp
