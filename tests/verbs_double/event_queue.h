// EventQueue: what waits behind a descriptor that poll(2) understands, one count for each event.
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <mutex>
#include <utility>
#include <vector>

namespace farwrite::verbs_double {

// Thread-safe. Blocking or not is the descriptor's business (O_NONBLOCK), as with the real ones.
template <class T>
class EventQueue {
 public:
  EventQueue() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE)) {}
  ~EventQueue() { ::close(fd_); }
  EventQueue(const EventQueue&) = delete;
  EventQueue& operator=(const EventQueue&) = delete;

  int fd() const { return fd_; }

  void push(T event) {
    {
      const std::lock_guard lock(mutex_);
      events_.push_back(std::move(event));
    }
    ::eventfd_write(fd_, 1);
  }

  // 0, or errno. Runs `taken` on the event before remove_if() can miss it.
  template <class Taken>
  int take(T* event, Taken taken) {
    for (;;) {
      eventfd_t one = 0;
      if (::eventfd_read(fd_, &one) != 0) return errno;
      const std::lock_guard lock(mutex_);
      if (events_.empty()) continue;  // what the count stood for has been removed
      *event = std::move(events_.front());
      events_.pop_front();
      taken(*event);
      return 0;
    }
  }
  int take(T* event) {
    return take(event, [](const T&) {});
  }

  // Takes out all that fit, oldest first.
  template <class Fits>
  std::vector<T> remove_if(Fits fits) {
    std::vector<T> gone;
    std::deque<T> kept;
    const std::lock_guard lock(mutex_);
    for (T& event : events_) {
      if (fits(event)) {
        gone.push_back(std::move(event));
      } else {
        kept.push_back(std::move(event));
      }
    }
    events_.swap(kept);
    return gone;
  }

 private:
  const int fd_;
  std::mutex mutex_;
  std::deque<T> events_;
};

}  // namespace farwrite::verbs_double
