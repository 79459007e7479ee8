#include "raw_tcp.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>

#include "clock.h"

namespace farwrite::bench {
namespace {

constexpr std::chrono::seconds kTimeout{30};
constexpr ErrorContext kWhere{.operation = "bench p2p raw sockets", .peer = {}, .fabric = {}};
constexpr std::uint64_t kNoSlot = UINT64_MAX;

Status broken(std::string_view what) {
  return Status::system_error(StatusCode::kUnavailable, kWhere, what, errno,
                              "read the other process's own error");
}

}  // namespace

RawTcpPath::RawTcpPath(Role role, Stage& stage, const Phase& phase, const SlotMap& map,
                       const std::vector<int>& sockets)
    : role_(role),
      stage_(stage),
      phase_(phase),
      map_(map),
      sockets_(sockets),
      echo_(phase.kind == Kind::kLatency && echoes(phase)) {
  if (role_ != Role::kSender || phase_.op != Op::kRead) return;
  for (std::uint32_t lane = 0; lane < phase_.lanes; ++lane) {
    servers_.emplace_back([this, lane] { serve(lane); });
  }
}

RawTcpPath::~RawTcpPath() {
  if (role_ == Role::kReceiver && phase_.op == Op::kRead) {
    for (std::uint32_t lane = 0; lane < phase_.lanes; ++lane) {
      (void)send(lane, &kNoSlot, sizeof(kNoSlot));
    }
  }
  for (std::thread& server : servers_) server.join();
}

Status RawTcpPath::send(std::uint32_t lane, const void* data, std::uint64_t bytes) const {
  const auto* at = static_cast<const std::byte*>(data);
  const Deadline deadline(kTimeout);
  while (bytes > 0) {
    const ssize_t count = ::send(sockets_[lane], at, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count > 0) {
      at += count;
      bytes -= static_cast<std::uint64_t>(count);
      continue;
    }
    if (errno != EAGAIN && errno != EINTR) return broken("send failed");
    if (stage_.given_up() || deadline.expired())
      return broken("the other process receives nothing");
    // The sender blocks even if receivers poll. A polling sender would send small pieces and would
    // contend with the receiver for the socket's lock.
    pollfd entry{sockets_[lane], POLLOUT, 0};
    ::poll(&entry, 1, 100);
  }
  return Status();
}

Status RawTcpPath::receive(std::uint32_t lane, void* data, std::uint64_t bytes) const {
  auto* at = static_cast<std::byte*>(data);
  const Deadline deadline(kTimeout);
  while (bytes > 0) {
    const ssize_t count = ::recv(sockets_[lane], at, bytes, MSG_DONTWAIT);
    if (count > 0) {
      at += count;
      bytes -= static_cast<std::uint64_t>(count);
      continue;
    }
    if (count == 0 || (errno != EAGAIN && errno != EINTR)) return broken("recv failed");
    if (stage_.given_up() || deadline.expired()) return broken("nothing arrived for 30 s");
    if (phase_.block) {
      pollfd entry{sockets_[lane], POLLIN, 0};
      ::poll(&entry, 1, 100);
    } else {
      cpu_relax();
    }
  }
  return Status();
}

Status RawTcpPath::put(std::uint32_t lane, std::uint32_t /*slot*/, const std::byte* source) {
  return send(lane, source, phase_.size);
}

Status RawTcpPath::signal(std::uint32_t lane, std::uint32_t slot) {
  const std::uint64_t word = slot;
  return send(lane, &word, sizeof(word));
}

Result<Arrival> RawTcpPath::take(std::uint32_t lane) {
  Arrival arrival{.lane = lane, .slot = 0};
  if (echo_) {
    std::byte* const to = role_ == Role::kSender ? stage_.echo() : stage_.pool();
    FARWRITE_RETURN_IF_ERROR(receive(lane, to, phase_.size));
    return arrival;
  }
  if (role_ == Role::kReceiver && phase_.op == Op::kWrite) {
    // The sender uses a lane's slots in turn.
    const auto lane_slots = static_cast<std::uint32_t>(map_.slots / phase_.lanes);
    arrival.slot = taken_[lane] * phase_.lanes + lane;
    if (++taken_[lane] == lane_slots) taken_[lane] = 0;
    FARWRITE_RETURN_IF_ERROR(receive(lane, stage_.pool() + map_.offset(arrival.slot), phase_.size));
    return arrival;
  }
  std::uint64_t word = 0;
  FARWRITE_RETURN_IF_ERROR(receive(lane, &word, sizeof(word)));
  arrival.slot = static_cast<std::uint32_t>(word);
  return arrival;
}

Status RawTcpPath::fetch(std::uint32_t lane, std::uint32_t slot, std::byte* destination) {
  FARWRITE_RETURN_IF_ERROR(signal(lane, slot));
  return receive(lane, destination, phase_.size);
}

void RawTcpPath::serve(std::uint32_t lane) const {
  while (true) {
    std::uint64_t slot = kNoSlot;
    if (!receive(lane, &slot, sizeof(slot)).ok() || slot >= map_.slots) return;
    if (!send(lane, stage_.pool() + map_.offset(slot), phase_.size).ok()) return;
  }
}

Result<const std::byte*> RawTcpPath::view(std::uint32_t slot) {
  if (role_ == Role::kSender && echo_) return static_cast<const std::byte*>(stage_.echo());
  return static_cast<const std::byte*>(stage_.pool() + map_.offset(slot));
}

}  // namespace farwrite::bench
