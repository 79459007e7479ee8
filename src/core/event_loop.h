// EventLoop: one thread that waits on file descriptors, timers and posted functions.
//
// Callbacks run on the loop's thread, one at a time, and without any lock of the loop held, so they
// may call the loop, and may be removed by their own run. They must not block: everything else on
// the loop waits meanwhile. All methods may be called from any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "farwrite/status.h"

namespace farwrite::core {

class EventLoop {
 public:
  // Gets the EPOLL* bits that are ready.
  using FdCallback = std::function<void(std::uint32_t epoll_events)>;
  using TimerId = std::uint64_t;

  // `thread_name` is cut to the 15 characters that Linux keeps. The thread takes no
  // signals but its own faults. It runs inside `owner` (core/inside.h).
  static Result<std::unique_ptr<EventLoop>> start(std::string thread_name,
                                                  const void* owner = nullptr);

  // Runs what was posted before, then stops and joins the thread. Callbacks still registered do not
  // run again and are destroyed. Destroyed by its own callback, the loop ends once that callback
  // returns. In a forked child the loop is leaked: its thread exists only in the parent.
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // Watches `fd` for `events` (EPOLLIN, EPOLLOUT, EPOLLET, ...); EPOLLERR and EPOLLHUP come
  // unasked. The caller keeps owning `fd` and must call remove_fd before closing it.
  Status add_fd(int fd, std::uint32_t events, FdCallback callback);
  // Replaces the events. A callback that runs later gets none of those taken out.
  Status modify_fd(int fd, std::uint32_t events);
  // When this returns, the callback is not running and never runs again, and is destroyed. From
  // another thread it waits for a running callback, so hold no lock which that callback takes. On
  // the loop's thread it returns at once; a callback that removes itself lives until it returns.
  // An `fd` that is not registered is ignored.
  void remove_fd(int fd);

  // Runs `function` on the loop's thread, in the order of posting. Once the loop is stopping, or in
  // a forked child, it is dropped.
  void post(std::function<void()> function);

  // Runs `callback` every `period` (at least 1 ms), the first time one period from now. A late
  // timer skips the turns it missed. Never returns 0, except in a forked child, where nothing will
  // run.
  TimerId every(std::chrono::nanoseconds period, std::function<void()> callback);
  // The same promise as remove_fd. An unknown id is ignored.
  void cancel_timer(TimerId id);

  bool on_loop_thread() const;

 private:
  class State;
  explicit EventLoop(std::shared_ptr<State> state);

  // Shared with the thread, which outlives this object when a callback destroys it.
  std::shared_ptr<State> state_;
};

}  // namespace farwrite::core
