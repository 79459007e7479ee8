// WireTap: something on the way between two sockets, who reads what passes and may change it.
#pragma once

#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "core/tcp_socket.h"
#include "core/unique_fd.h"
#include "farwrite/endpoint.h"

namespace farwrite {

// One thread carries the bytes. Thread-safe.
class WireTap {
 public:
  // What passes from the near side (`forth`) or to it, before it goes on. Nothing left: dropped.
  using Filter = std::function<void(bool forth, std::string& bytes)>;

  WireTap() : thread_([this] { run(); }) {}
  ~WireTap() {
    stop_.store(true);
    thread_.join();
  }
  WireTap(const WireTap&) = delete;
  WireTap& operator=(const WireTap&) = delete;

  // Two connected sockets: what comes out of one goes into the other.
  void carry(core::UniqueFd near, core::UniqueFd far) {
    const std::lock_guard<std::mutex> lock(mutex_);
    lines_.push_back({std::move(near), std::move(far), {}, {}});
  }
  // Connections to `listen` go on to `target`. Where it listens, with the port that was picked.
  Endpoint relay(const Endpoint& listen, const Endpoint& target) {
    const std::lock_guard<std::mutex> lock(mutex_);
    doors_.push_back({core::listen_tcp(listen).value(), target});
    return doors_.back().listener.endpoint;
  }
  void set_filter(Filter filter) {
    const std::lock_guard<std::mutex> lock(mutex_);
    filter_ = std::move(filter);
  }
  // Ends all connections in the middle, without a word.
  void cut() {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (Line& line : lines_) end(line);
  }
  // Whether this has passed, in one direction of one connection.
  bool saw(std::string_view text) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const Line& line : lines_) {
      for (const std::string* passed : {&line.forth, &line.back}) {
        if (passed->find(text) != std::string::npos) return true;
      }
    }
    return false;
  }
  std::size_t connections() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return lines_.size();
  }

 private:
  struct Line {
    core::UniqueFd near, far;  // none once it is over
    std::string forth, back;   // what passed
  };
  struct Door {
    core::Listener listener;
    Endpoint target;
  };

  static bool readable(int fd) {
    pollfd entry{fd, POLLIN, 0};
    return fd >= 0 && ::poll(&entry, 1, 0) > 0;
  }
  static void end(Line& line) {
    line.near.reset();
    line.far.reset();
  }

  void run() {
    while (!stop_.load()) {
      bool moved = false;
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        for (Door& door : doors_) {
          if (readable(door.listener.socket.get())) open(door);
        }
        for (Line& line : lines_) {
          moved = move(line, true) || moved;
          moved = move(line, false) || moved;
        }
      }
      if (!moved) std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }
  void open(Door& door) {
    core::UniqueFd near(::accept4(door.listener.socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
    auto far = core::connect_tcp(door.target, later());
    if (near.valid() && far.ok()) lines_.push_back({std::move(near), *std::move(far), {}, {}});
  }
  bool move(Line& line, bool forth) {
    const core::UniqueFd& from = forth ? line.near : line.far;
    const core::UniqueFd& to = forth ? line.far : line.near;
    if (!readable(from.get())) return false;
    std::string bytes(64 * 1024, '\0');
    const ssize_t count = ::recv(from.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (count <= 0) {
      end(line);
      return false;
    }
    bytes.resize(static_cast<std::size_t>(count));
    (forth ? line.forth : line.back) += bytes;
    if (filter_) filter_(forth, bytes);
    if (!core::send_all(to.get(), {bytes.data(), bytes.size()}, later(), "carry").ok()) end(line);
    return true;
  }
  static core::Deadline later() { return core::Deadline::after(std::chrono::seconds(30)); }

  mutable std::mutex mutex_;
  std::list<Line> lines_;
  std::list<Door> doors_;
  Filter filter_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace farwrite
