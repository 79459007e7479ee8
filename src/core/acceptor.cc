#include "core/acceptor.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <utility>

#include "core/left_at_fork.h"
#include "core/log.h"
#include "core/mutex.h"

namespace farwrite::core {
namespace {

// Without a descriptor to take a connection, or to turn it away.
constexpr std::chrono::milliseconds kPause(100);

}  // namespace

Result<std::unique_ptr<Acceptor>> Acceptor::start(EventLoop& loop, int listener,
                                                  OnConnection on_connection,
                                                  OnTurnedAway on_turned_away) {
  std::unique_ptr<Acceptor> acceptor(
      new Acceptor(loop, listener, std::move(on_connection), std::move(on_turned_away)));
  if (!acceptor->spare_fd_.held()) {
    return Status::system_error(StatusCode::kResourceExhausted, {"listen"},
                                "no file descriptor left to turn connections away with", errno,
                                "raise the limit of open files (ulimit -n)");
  }
  FARWRITE_RETURN_IF_ERROR(loop.add_fd(
      listener, EPOLLIN, [self = acceptor.get()](std::uint32_t) { self->on_readable(); }));
  return acceptor;
}

Acceptor::Acceptor(EventLoop& loop, int listener, OnConnection on_connection,
                   OnTurnedAway on_turned_away)
    : loop_(loop),
      listener_(listener),
      on_connection_(std::move(on_connection)),
      on_turned_away_(std::move(on_turned_away)) {}

Acceptor::~Acceptor() {
  loop_.remove_fd(listener_);
  EventLoop::TimerId paused = 0;
  {
    const Lock lock(mutex_);
    stopping_ = true;
    paused = paused_;
  }
  if (paused != 0) loop_.cancel_timer(paused);
}

void Acceptor::on_readable() {
  UniqueFd socket(::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (socket.valid()) {
    leave_at_fork(socket.get());
    on_connection_(std::move(socket));
    return;
  }
  if (errno != EMFILE && errno != ENFILE) return;  // it left again
  if (!spare_fd_.turn_away(listener_, on_turned_away_)) pause();
  log(LogLevel::kWarning, "a connection was dropped: no file descriptor left; raise ulimit -n");
}

void Acceptor::pause() {
  const Lock lock(mutex_);
  if (stopping_ || paused_ != 0) return;
  if (!loop_.modify_fd(listener_, 0).ok()) return;
  paused_ = loop_.every(kPause, [this] { resume(); });
}

void Acceptor::resume() {
  const Lock lock(mutex_);
  if (stopping_) return;  // the destructor cancels the timer
  loop_.cancel_timer(std::exchange(paused_, 0));
  (void)loop_.modify_fd(listener_, EPOLLIN);
}

}  // namespace farwrite::core
