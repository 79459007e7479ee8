#include "fabric/lobby.h"

#include <sys/epoll.h>

#include <algorithm>
#include <utility>

#include "core/arrival_limits.h"
#include "core/log.h"
#include "core/mutex.h"
#include "core/sha256.h"

namespace farwrite::fabric {
namespace {

constexpr std::chrono::seconds kBetweenWarnings(10);

// A peer that left again is no event.
void warn_unless_it_left(const Status& status) {
  if (status.code() != StatusCode::kUnavailable) {
    core::log(core::LogLevel::kWarning, status.message());
  }
}

}  // namespace

Result<std::unique_ptr<Lobby>> Lobby::open(core::EventLoop& loop, int listener,
                                           std::chrono::nanoseconds patience, LobbyRules rules) {
  std::unique_ptr<Lobby> lobby(new Lobby(loop, patience, std::move(rules)));
  auto acceptor = core::Acceptor::start(
      loop, listener,
      [self = lobby.get()](core::UniqueFd socket) { self->on_connection(std::move(socket)); },
      [self = lobby.get()](int /*socket*/) { self->on_turned_away(); });
  if (!acceptor.ok()) return acceptor.status();
  lobby->acceptor_ = *std::move(acceptor);
  lobby->timer_ =
      loop.every(std::clamp<std::chrono::nanoseconds>(patience / 2, std::chrono::milliseconds(50),
                                                      std::chrono::seconds(5)),
                 [self = lobby.get()] { self->drop_stale(); });
  return lobby;
}

Lobby::Lobby(core::EventLoop& loop, std::chrono::nanoseconds patience, LobbyRules rules)
    : loop_(loop), patience_(patience), rules_(std::move(rules)) {}

Lobby::~Lobby() {
  acceptor_.reset();
  if (timer_ != 0) loop_.cancel_timer(timer_);
  std::list<PendingConnection> pending;
  {
    const core::Lock lock(mutex_);
    pending.swap(pending_);
  }
  for (const PendingConnection& connection : pending) loop_.remove_fd(connection.socket.get());
}

Result<core::UniqueFd> Lobby::take(ByteView key, const AttachRequest& request,
                                   std::string_view remedy) {
  core::Lock lock(mutex_);
  while (true) {
    const auto found =
        std::find_if(pending_.begin(), pending_.end(), [&](const PendingConnection& one) {
          return one.complete && core::constant_time_equal({one.key.data(), one.key.size()}, key);
        });
    if (found != pending_.end()) {
      core::UniqueFd socket = std::move(found->socket);
      pending_.erase(found);
      return socket;
    }
    const bool given_up = request.abandoned && request.abandoned();
    const bool over = given_up || request.deadline.expired();
    if (over && turned_away_at_ >= request.began) {
      return Status::error(StatusCode::kResourceExhausted,
                           {"attach", request.peer_name, rules_.fabric},
                           "no file descriptor was left for the peer's connection",
                           "raise the limit of open files (ulimit -n)");
    }
    if (over) {
      return Status::error(StatusCode::kUnavailable, {"attach", request.peer_name, rules_.fabric},
                           given_up ? "the peer stopped connecting over " + rules_.fabric
                                    : "the peer did not connect over " + rules_.fabric + " in time",
                           remedy);
    }
    arrived_.wait_for(mutex_,
                      std::min<std::chrono::nanoseconds>(kAskAgain, request.deadline.remaining()));
  }
}

void Lobby::on_connection(core::UniqueFd socket) {
  auto origin = rules_.origin(socket.get());
  if (!origin.ok()) {
    warn_unless_it_left(origin.status());
    return;
  }
  const int fd = socket.get();
  {
    const core::Lock lock(mutex_);
    make_room_locked(*origin);
    pending_.push_back({std::move(socket), *std::move(origin), core::Deadline::after(patience_)});
    const Status watched =
        loop_.add_fd(fd, EPOLLIN, [this, fd](std::uint32_t) { on_readable(fd); });
    if (!watched.ok()) {
      warn_unless_it_left(watched);
      pending_.pop_back();
      return;
    }
  }
  on_readable(fd);  // most peers have written by now, and then no crowd can push them out
}

void Lobby::on_turned_away() {
  const core::Lock lock(mutex_);
  turned_away_at_ = core::now_ns();
}

void Lobby::make_room_locked(const std::string& origin) {
  const core::ArrivalLimits limits = core::ArrivalLimits::of_process();
  const auto crowding = core::find_crowding(pending_, origin, limits);
  if (crowding == pending_.end()) return;
  if (quiet_until_.expired()) {
    quiet_until_ = core::Deadline::after(kBetweenWarnings);
    core::log(core::LogLevel::kWarning, rules_.fabric + ": connections from " + crowding->origin +
                                            " belong to no handshake, and the oldest are closed; "
                                            "check which programs connect from there");
  }
  loop_.remove_fd(crowding->socket.get());
  pending_.erase(crowding);
}

void Lobby::on_readable(int fd) {
  const core::Lock lock(mutex_);
  const auto connection =
      std::find_if(pending_.begin(), pending_.end(),
                   [fd](const PendingConnection& one) { return one.socket.get() == fd; });
  if (connection == pending_.end() || connection->complete) return;
  auto complete = rules_.read_key(fd, connection->key);
  if (complete.ok() && !*complete) return;
  loop_.remove_fd(fd);
  if (complete.ok()) {
    connection->complete = true;
    arrived_.notify_all();
    return;
  }
  warn_unless_it_left(complete.status());
  pending_.erase(connection);
}

void Lobby::drop_stale() {
  const core::Lock lock(mutex_);
  std::erase_if(pending_, [this](const PendingConnection& connection) {
    if (!connection.deadline.expired()) return false;
    loop_.remove_fd(connection.socket.get());
    return true;
  });
}

}  // namespace farwrite::fabric
