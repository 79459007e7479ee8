// AsyncEvents: what an RDMA device says of itself: a port that goes down, a device that fails.
//
// A process opens a device once, however many fabrics use it, and an event is read once; so it is
// shared out among all of them.
#pragma once

#include <functional>
#include <string>

#include "core/event_loop.h"
#include "fabric/verbs/verbs_library.h"
#include "farwrite/status.h"

namespace farwrite::fabric::verbs {

// An asynchronous event in words, with what to do. `fatal`: the device is of no use any more.
std::string describe_event(const ibv_async_event& event, const std::string& device, bool* fatal);

// While it lives, events of the device are logged, and `on_fatal` is called with a sentence when
// the device is of no use any more. Thread-safe.
class AsyncEvents {
 public:
  AsyncEvents(core::EventLoop& loop, VerbsLibrary& library, ibv_context* context,
              std::function<void(const std::string&)> on_fatal);
  ~AsyncEvents();
  AsyncEvents(const AsyncEvents&) = delete;
  AsyncEvents& operator=(const AsyncEvents&) = delete;

  Status start();

 private:
  void on_readable();
  void tell_all(const std::string& sentence) const;

  core::EventLoop& loop_;
  VerbsLibrary& library_;
  ibv_context* const context_;
  const std::function<void(const std::string&)> on_fatal_;
  int fd_ = -1;  // a duplicate: several loops may watch the same
};

}  // namespace farwrite::fabric::verbs
