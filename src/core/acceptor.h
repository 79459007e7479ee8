// Acceptor: takes the connections of a listening socket on an event loop.
#pragma once

#include <functional>
#include <memory>

#include "core/event_loop.h"
#include "core/mutex.h"
#include "core/spare_fd.h"
#include "core/unique_fd.h"
#include "farwrite/status.h"

namespace farwrite::core {

// When descriptors run out it turns connections away, and says so in the log; it never spins.
// Stopped by its end, after which no callback runs. The loop outlives it.
class Acceptor {
 public:
  // On the loop's thread. The socket is non-blocking.
  using OnConnection = std::function<void(UniqueFd socket)>;
  // Before the peer can know. The socket is -1 if the connection has to wait, or left again.
  using OnTurnedAway = std::function<void(int socket)>;

  // `listener` stays the caller's, and open while the acceptor lives.
  static Result<std::unique_ptr<Acceptor>> start(EventLoop& loop, int listener,
                                                 OnConnection on_connection,
                                                 OnTurnedAway on_turned_away);
  ~Acceptor();
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

 private:
  Acceptor(EventLoop& loop, int listener, OnConnection on_connection, OnTurnedAway on_turned_away);
  void on_readable();
  void pause();
  void resume();

  EventLoop& loop_;
  const int listener_;
  const OnConnection on_connection_;
  const OnTurnedAway on_turned_away_;
  SpareFd spare_fd_;  // loop's thread only
  Mutex mutex_{LockRank::kCore, 1};
  EventLoop::TimerId paused_ FW_GUARDED_BY(mutex_) = 0;  // the timer that ends a pause
  bool stopping_ FW_GUARDED_BY(mutex_) = false;
};

}  // namespace farwrite::core
