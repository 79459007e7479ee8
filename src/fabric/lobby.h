// Lobby: the connections to a fabric's listening socket, until the handshakes they belong to take
// them.
//
// Any process may connect. A connection belongs to a handshake when its first message holds the key
// that both sides derived from the handshake's secret. Until then it costs one descriptor, and how
// many there are is bounded (core/arrival_limits.h): the oldest of the most crowding origin goes.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "core/acceptor.h"
#include "core/event_loop.h"
#include "core/mutex.h"
#include "fabric/fabric.h"

namespace farwrite::fabric {

// What differs between the kinds of sockets. Called on the loop's thread. kUnavailable: the peer
// has left again, which is not worth a warning.
struct LobbyRules {
  std::string fabric;  // "tcp", for errors
  // Who is at the other end: connections of one origin share its places. An error turns it away.
  std::function<Result<std::string>(int socket)> origin;
  // Adds to `key` what has come of it, and returns whether all of it has. An error ends the
  // connection.
  std::function<Result<bool>(int socket, std::vector<std::byte>& key)> read_key;
};

// Thread-safe. The loop and the listener outlive it.
class Lobby {
 public:
  // A connection that finds no handshake within `patience` is dropped.
  static Result<std::unique_ptr<Lobby>> open(core::EventLoop& loop, int listener,
                                             std::chrono::nanoseconds patience, LobbyRules rules);
  ~Lobby();
  Lobby(const Lobby&) = delete;
  Lobby& operator=(const Lobby&) = delete;

  // Waits for the connection that brings `key`. kUnavailable with `remedy` once the request is
  // abandoned, or past its deadline; kResourceExhausted if connections were turned away since
  // the request began, because no descriptor was left.
  Result<core::UniqueFd> take(ByteView key, const AttachRequest& request, std::string_view remedy);

 private:
  struct PendingConnection {
    core::UniqueFd socket;
    std::string origin;
    core::Deadline deadline = core::Deadline::never();
    std::vector<std::byte> key = {};
    bool complete = false;
    bool waits() const { return true; }
  };

  Lobby(core::EventLoop& loop, std::chrono::nanoseconds patience, LobbyRules rules);
  void on_connection(core::UniqueFd socket);
  void on_turned_away();
  void on_readable(int fd);
  void drop_stale();
  void make_room_locked(const std::string& origin) FW_REQUIRES(mutex_);

  core::EventLoop& loop_;
  const std::chrono::nanoseconds patience_;
  const LobbyRules rules_;
  core::EventLoop::TimerId timer_ = 0;

  core::Mutex mutex_{core::LockRank::kFabric};
  core::CondVar arrived_;
  std::list<PendingConnection> pending_ FW_GUARDED_BY(mutex_);  // oldest first
  std::int64_t turned_away_at_ FW_GUARDED_BY(mutex_) = -1;      // the last time
  core::Deadline quiet_until_ FW_GUARDED_BY(mutex_) =
      core::Deadline::after({});  // bounds the log, not the crowd

  std::unique_ptr<core::Acceptor> acceptor_;
};

}  // namespace farwrite::fabric
