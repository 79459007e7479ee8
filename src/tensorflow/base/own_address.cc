#include "base/own_address.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <charconv>
#include <memory>
#include <utility>

namespace farwrite::plugin {
namespace {

namespace tf = ::tensorflow;

constexpr char kLoopback[] = "127.0.0.1";

// "10.0.0.2:2222", "[::1]:2222" and "worker-0" have a host and maybe a port.
std::pair<std::string, std::string> split(std::string_view address) {
  const std::size_t colon = address.rfind(':');
  const bool bracketed = !address.empty() && address.front() == '[';
  const std::size_t bracket = address.rfind(']');
  const bool has_port = colon != std::string_view::npos &&
                        (!bracketed || (bracket != std::string_view::npos && colon > bracket));
  std::string_view host = has_port ? address.substr(0, colon) : address;
  if (bracketed && host.size() >= 2 && host.back() == ']') host = host.substr(1, host.size() - 2);
  return {std::string(host), std::string(has_port ? address.substr(colon + 1) : "")};
}

bool is_loopback_host(const std::string& host) {
  return host == "localhost" || host.rfind("127.", 0) == 0 || host == "::1";
}

// The address of this host that the kernel takes for packets there; empty if there is none.
std::string local_address_for(const addrinfo& peer) {
  const int socket = ::socket(peer.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return {};
  sockaddr_storage own{};
  socklen_t size = sizeof(own);
  char host[NI_MAXHOST] = "";
  // Connecting a datagram socket sends nothing.
  const bool found = ::connect(socket, peer.ai_addr, peer.ai_addrlen) == 0 &&
                     ::getsockname(socket, reinterpret_cast<sockaddr*>(&own), &size) == 0 &&
                     ::getnameinfo(reinterpret_cast<sockaddr*>(&own), size, host, sizeof(host),
                                   nullptr, 0, NI_NUMERICHOST) == 0;
  ::close(socket);
  return found ? host : "";
}

// The task's address in its cluster; empty if the cluster does not name it.
std::string own_address(const tf::ServerDef& server_def) {
  for (const tf::JobDef& job : server_def.cluster().job()) {
    if (job.name() != server_def.job_name()) continue;
    const auto task = job.tasks().find(server_def.task_index());
    return task == job.tasks().end() ? std::string() : task->second;
  }
  return {};
}

}  // namespace

std::string host_towards(const std::string& address) {
  const auto [host, port] = split(address);
  if (is_loopback_host(host)) return kLoopback;
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), port.c_str(), &hints, &found) != 0) return kLoopback;
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> all(found, &::freeaddrinfo);
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    const std::string own = local_address_for(*one);
    if (!own.empty()) return is_loopback_host(own) ? kLoopback : own;
  }
  return kLoopback;
}

std::string own_host(const tf::ServerDef& server_def) {
  std::string host = split(own_address(server_def)).first;
  return host.empty() || is_loopback_host(host) ? kLoopback : host;
}

int own_port(const tf::ServerDef& server_def) {
  if (server_def.port() != 0) return server_def.port();
  const std::string text = split(own_address(server_def)).second;
  int port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  const bool is_port = error == std::errc() && end == text.data() + text.size() && port <= 65535;
  return is_port ? port : 0;
}

std::string task_name(const tf::ServerDef& server_def) {
  return "/job:" + server_def.job_name() + "/replica:" + std::to_string(server_def.replica()) +
         "/task:" + std::to_string(server_def.task_index());
}

std::string join_host_port(const std::string& host, std::string_view port) {
  const bool bracketed = host.find(':') != std::string::npos;
  return (bracketed ? "[" + host + "]" : host) + ":" + std::string(port);
}

bool is_loopback(std::string_view endpoint) { return is_loopback_host(split(endpoint).first); }

std::string advertised(const std::string& endpoint, const std::string& own_host) {
  const auto [host, port] = split(endpoint);
  return host == "0.0.0.0" || host == "::" ? join_host_port(own_host, port) : endpoint;
}

}  // namespace farwrite::plugin
