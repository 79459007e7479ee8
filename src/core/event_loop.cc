#include "core/event_loop.h"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "core/deadline.h"
#include "core/fork_guard.h"
#include "core/inside.h"
#include "core/mutex.h"
#include "core/signals_blocked.h"
#include "core/start_thread.h"
#include "core/unique_fd.h"

namespace farwrite::core {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kWakeId = 0;  // the eventfd's id in epoll data; registrations count from 1
constexpr int kNoFd = -1;

void write_thread_name(pthread_t thread, std::string name) {
  constexpr std::size_t kMaxNameBytes = 15;
  if (name.size() > kMaxNameBytes) name.resize(kMaxNameBytes);
  // Only for debuggers: a nameless thread works as well.
  ::pthread_setname_np(thread, name.c_str());
}

}  // namespace

class EventLoop::State {
 public:
  Status open();
  explicit State(const void* owner) : owner_(owner) {}

  // Starts the thread, which shares `state`.
  static Status start_thread(const std::shared_ptr<State>& state, std::string name);
  void stop();

  Status add_fd(int fd, std::uint32_t events, FdCallback callback);
  Status modify_fd(int fd, std::uint32_t events);
  void remove_fd(int fd);
  void post(std::function<void()> function);
  TimerId every(std::chrono::nanoseconds period, std::function<void()> callback);
  void cancel_timer(TimerId id);
  bool on_loop_thread() const { return Inside::is(this); }
  const ForkGuard fork_guard;

 private:
  // Shared by the map and by the turn that runs it, so that a callback may remove itself.
  struct FdWatch {
    int fd;
    std::uint32_t events;
    FdCallback callback;
  };
  struct Timer {
    std::chrono::nanoseconds period;
    Clock::time_point due;
    std::shared_ptr<std::function<void()>> callback;
  };
  // What the loop's thread is calling right now; id 0 is nothing.
  struct RunningCallback {
    std::uint64_t id = 0;
    int fd = kNoFd;
  };

  void run();
  void run_posted();
  void run_fd(std::uint64_t id, std::uint32_t ready);
  void run_due_timers();
  int wait_ms();
  void wake();
  void end_turn();
  template <typename IsRunning>
  void wait_while_running(IsRunning is_running) FW_REQUIRES(mutex_);

  const void* const owner_;
  UniqueFd epoll_;
  UniqueFd wake_;
  pthread_t thread_{};

  Mutex mutex_{LockRank::kCore};  // never held while a callback runs or is destroyed
  CondVar turn_ended_;
  bool stopping_ FW_GUARDED_BY(mutex_) = false;
  RunningCallback turn_ FW_GUARDED_BY(mutex_);
  std::uint64_t turns_ended_ FW_GUARDED_BY(mutex_) = 0;
  std::uint64_t next_id_ FW_GUARDED_BY(mutex_) = 1;
  std::map<std::uint64_t, std::shared_ptr<FdWatch>> watches_ FW_GUARDED_BY(mutex_);
  std::map<int, std::uint64_t> watch_of_fd_ FW_GUARDED_BY(mutex_);
  std::map<TimerId, Timer> timers_ FW_GUARDED_BY(mutex_);
  std::vector<std::function<void()>> posted_ FW_GUARDED_BY(mutex_);
};

Status EventLoop::State::open() {
  constexpr std::string_view kRemedy = "raise the limit on open files (ulimit -n)";
  epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_.valid()) {
    return Status::system_error(StatusCode::kResourceExhausted, {.operation = "start event loop"},
                                "epoll_create1", errno, kRemedy);
  }
  wake_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_.valid()) {
    return Status::system_error(StatusCode::kResourceExhausted, {.operation = "start event loop"},
                                "eventfd", errno, kRemedy);
  }
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kWakeId;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), &event) != 0) {
    return Status::system_error(StatusCode::kResourceExhausted, {.operation = "start event loop"},
                                "epoll_ctl", errno, "raise fs.epoll.max_user_watches");
  }
  return Status();
}

Status EventLoop::State::start_thread(const std::shared_ptr<State>& state, std::string name) {
  auto* share = new std::shared_ptr<State>(state);
  const auto main = [](void* argument) -> void* {
    const std::unique_ptr<std::shared_ptr<State>> owned(
        static_cast<std::shared_ptr<State>*>(argument));
    const Inside owner((*owned)->owner_);
    const Inside loop(owned->get());
    (*owned)->run();
    return nullptr;
  };
  const auto create = [&] {
    const SignalsBlocked blocked;
    return ::pthread_create(&state->thread_, nullptr, main, share);
  };
  const int error = create();
  if (error != 0) {
    delete share;
    return no_thread({.operation = "start event loop"}, error);
  }
  write_thread_name(state->thread_, std::move(name));
  return Status();
}

void EventLoop::State::stop() {
  {
    const Lock lock(mutex_);
    stopping_ = true;
    wake();
  }
  if (on_loop_thread()) {
    ::pthread_detach(thread_);
  } else {
    ::pthread_join(thread_, nullptr);
  }
  // Moved out, because destroying a callback may run code that calls this loop again.
  decltype(watches_) watches;
  decltype(timers_) timers;
  const Lock lock(mutex_);
  watches.swap(watches_);
  timers.swap(timers_);
  watch_of_fd_.clear();
}

Status EventLoop::State::add_fd(int fd, std::uint32_t events, FdCallback callback) {
  auto watch = std::make_shared<FdWatch>(FdWatch{fd, events, std::move(callback)});
  const std::string operation = "watch descriptor " + std::to_string(fd);
  const ErrorContext where{.operation = operation};
  const Lock lock(mutex_);
  if (watch_of_fd_.contains(fd)) {
    return Status::error(StatusCode::kAlreadyExists, where, "the loop already watches it",
                         "remove it before it is closed or added again");
  }
  const std::uint64_t id = next_id_++;
  epoll_event event{};
  event.events = events;
  event.data.u64 = id;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    const bool exhausted = errno == ENOSPC || errno == ENOMEM;
    return Status::system_error(
        exhausted ? StatusCode::kResourceExhausted : StatusCode::kInvalidArgument, where,
        "epoll_ctl", errno,
        exhausted ? "raise fs.epoll.max_user_watches" : "pass an open socket, pipe or eventfd");
  }
  // The loop's thread may have the event by now; it waits for the mutex before it looks the id up.
  watches_.emplace(id, std::move(watch));
  watch_of_fd_.emplace(fd, id);
  return Status();
}

Status EventLoop::State::modify_fd(int fd, std::uint32_t events) {
  const Lock lock(mutex_);
  const auto found = watch_of_fd_.find(fd);
  const std::string operation = "change events of descriptor " + std::to_string(fd);
  if (found == watch_of_fd_.end()) {
    return Status::error(StatusCode::kNotFound, {.operation = operation},
                         "the loop does not watch it", "add it first");
  }
  epoll_event event{};
  event.events = events;
  event.data.u64 = found->second;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event) != 0) {
    return Status::system_error(StatusCode::kInvalidArgument, {.operation = operation}, "epoll_ctl",
                                errno, "remove it before it is closed");
  }
  watches_[found->second]->events = events;
  return Status();
}

void EventLoop::State::remove_fd(int fd) {
  if (fd < 0) return;  // nothing was ever watched there, but a timer's turn carries kNoFd
  std::shared_ptr<FdWatch> removed;  // declared before the lock, so destroyed after it
  Lock lock(mutex_);
  const auto found = watch_of_fd_.find(fd);
  if (found != watch_of_fd_.end()) {
    // Fails if the caller closed it too early, which has taken it out of the set as well.
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
    const auto watch = watches_.find(found->second);
    removed = std::move(watch->second);
    watches_.erase(watch);
    watch_of_fd_.erase(found);
  }
  // Even when something else has just removed it: the promise is made to both.
  wait_while_running([fd](const RunningCallback& turn) { return turn.fd == fd; });
}

void EventLoop::State::post(std::function<void()> function) {
  const Lock lock(mutex_);
  // When dropped, `function` is destroyed by the caller's frame, after the lock.
  if (stopping_) return;
  posted_.push_back(std::move(function));
  if (posted_.size() == 1) wake();
}

EventLoop::TimerId EventLoop::State::every(std::chrono::nanoseconds period,
                                           std::function<void()> callback) {
  // epoll_wait counts in milliseconds, and a century is more than any clock arithmetic needs.
  period = std::clamp<std::chrono::nanoseconds>(period, std::chrono::milliseconds(1),
                                                std::chrono::hours(24 * 365 * 100));
  auto shared_callback = std::make_shared<std::function<void()>>(std::move(callback));
  const Lock lock(mutex_);
  const TimerId id = next_id_++;
  timers_.emplace(id, Timer{period, Clock::now() + period, std::move(shared_callback)});
  wake();
  return id;
}

void EventLoop::State::cancel_timer(TimerId id) {
  std::shared_ptr<std::function<void()>> removed;
  Lock lock(mutex_);
  const auto found = timers_.find(id);
  if (found != timers_.end()) {
    removed = std::move(found->second.callback);
    timers_.erase(found);
  }
  wait_while_running([id](const RunningCallback& turn) { return turn.id == id; });
}

// Waits for the end of the turn under way, if it is the one asked about, and for no later one.
template <typename IsRunning>
void EventLoop::State::wait_while_running(IsRunning is_running) {
  if (on_loop_thread() || turn_.id == 0 || !is_running(turn_)) return;
  const std::uint64_t ended = turns_ended_;
  turn_ended_.wait(mutex_, [&]() FW_REQUIRES(mutex_) { return turns_ended_ != ended; });
}

void EventLoop::State::end_turn() {
  {
    const Lock lock(mutex_);
    turn_ = RunningCallback{};
    ++turns_ended_;
  }
  turn_ended_.notify_all();
}

void EventLoop::State::run() {
  std::array<epoll_event, 64> events;
  for (;;) {
    const int count = ::epoll_wait(epoll_.get(), events.data(), events.size(), wait_ms());
    if (count < 0 && errno != EINTR) {
      // Something closed a descriptor that is not theirs. Going on would leave every waiter
      // waiting.
      std::fprintf(stderr, "farwrite: epoll_wait of an event loop failed: %s (errno %d)\n",
                   std::strerror(errno), errno);
      std::abort();
    }
    // Asked after the wait, and before posted functions are taken: what was posted before the stop
    // is in the queue by now.
    Lock lock(mutex_);
    const bool last = stopping_;
    lock.unlock();
    run_posted();
    if (last) return;
    for (int i = 0; i < count; ++i) run_fd(events[i].data.u64, events[i].events);
    run_due_timers();
  }
}

void EventLoop::State::run_posted() {
  std::vector<std::function<void()>> batch;
  {
    const Lock lock(mutex_);
    batch.swap(posted_);
  }
  for (std::function<void()>& function : batch) {
    function();
    function = nullptr;  // at once: what it holds may be what the next one waits for
  }
}

void EventLoop::State::run_fd(std::uint64_t id, std::uint32_t ready) {
  if (id == kWakeId) {
    std::uint64_t wakes;
    // Non-blocking: an empty eventfd only means that there is nothing to drain.
    [[maybe_unused]] const ssize_t ignored = ::read(wake_.get(), &wakes, sizeof wakes);
    return;
  }
  Lock lock(mutex_);
  // An event of this batch may be older than a removal, a stop, or a change of the events.
  const auto found = watches_.find(id);
  if (stopping_ || found == watches_.end()) return;
  std::shared_ptr<FdWatch> watch = found->second;
  ready &= watch->events | EPOLLERR | EPOLLHUP;
  if (ready == 0) return;
  turn_ = RunningCallback{id, watch->fd};
  lock.unlock();
  watch->callback(ready);
  watch.reset();  // before the turn ends: a remover is promised that the callback is destroyed
  end_turn();
}

void EventLoop::State::run_due_timers() {
  std::vector<TimerId> due;
  Lock lock(mutex_);
  const Clock::time_point now = Clock::now();
  for (auto& [id, timer] : timers_) {
    if (timer.due > now) continue;
    due.push_back(id);
    timer.due += timer.period;
    if (timer.due <= now) timer.due = now + timer.period;
  }
  for (const TimerId id : due) {
    // Looked up again each time: a callback may cancel the next.
    const auto found = timers_.find(id);
    if (stopping_ || found == timers_.end()) continue;
    std::shared_ptr<std::function<void()>> callback = found->second.callback;
    turn_ = RunningCallback{id, kNoFd};
    lock.unlock();
    (*callback)();
    callback.reset();
    end_turn();
    lock.lock();
  }
}

int EventLoop::State::wait_ms() {
  const Lock lock(mutex_);
  // A callback may have posted or stopped before its own turn drained the eventfd.
  if (stopping_ || !posted_.empty()) return 0;
  Clock::time_point first = Clock::time_point::max();
  for (const auto& [id, timer] : timers_) first = std::min(first, timer.due);
  if (first == Clock::time_point::max()) return -1;
  return Deadline::after(first - Clock::now()).poll_timeout_ms();
}

void EventLoop::State::wake() {
  const std::uint64_t one = 1;
  // Fails only when the counter is full, and then the loop is awake anyway.
  [[maybe_unused]] const ssize_t ignored = ::write(wake_.get(), &one, sizeof one);
}

Result<std::unique_ptr<EventLoop>> EventLoop::start(std::string thread_name, const void* owner) {
  auto state = std::make_shared<State>(owner);
  FARWRITE_RETURN_IF_ERROR(state->open());
  FARWRITE_RETURN_IF_ERROR(State::start_thread(state, std::move(thread_name)));
  return std::unique_ptr<EventLoop>(new EventLoop(std::move(state)));
}

EventLoop::EventLoop(std::shared_ptr<State> state) : state_(std::move(state)) {}

// In a forked child the mutex may be locked for ever, and the epoll set is still the parent's:
// every method below looks at the guard before it touches either.

EventLoop::~EventLoop() {
  // The state is leaked then: the parent's thread holds a share, which nothing drops in the child.
  if (!state_->fork_guard.in_forked_child()) state_->stop();
}

Status EventLoop::add_fd(int fd, std::uint32_t events, FdCallback callback) {
  FARWRITE_RETURN_IF_ERROR(state_->fork_guard.check("watch a descriptor"));
  return state_->add_fd(fd, events, std::move(callback));
}

Status EventLoop::modify_fd(int fd, std::uint32_t events) {
  FARWRITE_RETURN_IF_ERROR(state_->fork_guard.check("change a descriptor's events"));
  return state_->modify_fd(fd, events);
}

void EventLoop::remove_fd(int fd) {
  if (!state_->fork_guard.in_forked_child()) state_->remove_fd(fd);
}

void EventLoop::post(std::function<void()> function) {
  if (!state_->fork_guard.in_forked_child()) state_->post(std::move(function));
}

EventLoop::TimerId EventLoop::every(std::chrono::nanoseconds period,
                                    std::function<void()> callback) {
  if (state_->fork_guard.in_forked_child()) return 0;
  return state_->every(period, std::move(callback));
}

void EventLoop::cancel_timer(TimerId id) {
  if (!state_->fork_guard.in_forked_child()) state_->cancel_timer(id);
}

bool EventLoop::on_loop_thread() const {
  return !state_->fork_guard.in_forked_child() && state_->on_loop_thread();
}

}  // namespace farwrite::core
