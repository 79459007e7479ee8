#include "device/notification_inbox.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <ctime>
#include <string_view>
#include <utility>

#include "core/counted.h"
#include "core/cpu_relax.h"
#include "core/mutex.h"
#include "core/thread_own.h"
#include "farwrite/internal/late.h"

namespace farwrite::device {
namespace {

// Bounds one sleep, so that a waiter looks around even if a wake-up were lost.
constexpr std::chrono::nanoseconds kLongestWaiterSleep = std::chrono::seconds(1);

// A user's thread that took a notification comes back for the next one within this time, mostly.
constexpr std::chrono::nanoseconds kComesBack = std::chrono::milliseconds(1);

constexpr std::string_view kWait = "wait for a notification";

Status handler_takes(const std::string& peer) {
  return Status::error(StatusCode::kFailedPrecondition, {kWait, peer},
                       "a handler takes this channel's notifications", "remove the handler first");
}

core::UniqueFd make_doorbell() { return core::UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)); }

void ring(const core::UniqueFd& doorbell) {
  constexpr std::uint64_t kOne = 1;
  [[maybe_unused]] const ssize_t count = ::write(doorbell.get(), &kOne, sizeof(kOne));
}

void silence(const core::UniqueFd& doorbell) {
  std::uint64_t rings = 0;
  [[maybe_unused]] const ssize_t count = ::read(doorbell.get(), &rings, sizeof(rings));
}

}  // namespace

NotificationInbox::Drive::Drive(NotificationInbox& inbox, LaneDriver& driver)
    : inbox_(inbox), driver_(driver), counted_(driver.counts_drives()) {
  if (!counted_) return;
  inbox_.drives_.fetch_add(1);
  inbox_.drivers_.fetch_add(1);
}

NotificationInbox::Drive::~Drive() {
  if (!counted_) return;
  inbox_.left_ns_.store(core::now_ns());
  if (inbox_.drivers_.fetch_sub(1) == 1 && inbox_.call_at_end_.exchange(false)) {
    driver_.drive_ended();
  }
}

bool NotificationInbox::is_driven() const {
  return drivers_.load() > 0 || core::now_ns() - left_ns_.load() < kComesBack.count();
}

bool NotificationInbox::call_at_end_of_drive() {
  // Left standing if nothing drives: another poller may have asked, and a call too many is
  // harmless.
  call_at_end_.store(true);
  return drivers_.load() > 0;
}

Status NotificationInbox::open() {
  wake_ = make_doorbell();
  if (wake_.valid()) return Status();
  return Status::system_error(StatusCode::kResourceExhausted, {"open a channel"},
                              "no descriptor for notifications", errno,
                              "raise the limit of open files (ulimit -n)");
}

// What clang cannot follow is whether it began. deliver() says what holds.
FW_NO_THREAD_SAFETY_ANALYSIS
NotificationInbox::Delivery::Delivery(NotificationInbox& inbox)
    : mode_(inbox.mode_), inside_(&inbox), begun_(true) {
  mode_.lock_shared();
}

NotificationInbox::Delivery::Delivery(NotificationInbox& inbox, std::try_to_lock_t)
    : mode_(inbox.mode_), inside_(&inbox), begun_(mode_.try_lock_shared()) {}

FW_NO_THREAD_SAFETY_ANALYSIS
NotificationInbox::Delivery::~Delivery() {
  if (begun_) mode_.unlock_shared();
}

void NotificationInbox::deliver(Notification&& notification, std::optional<Notification>* taken) {
  mode_.is_shared_here();
  (notification.message.empty() ? notifications_ : messages_).add();
  if (handler_) {
    handler_(std::move(notification));
    return;
  }
  if (taken != nullptr && !taken->has_value() && queued_.load(std::memory_order_acquire) == 0) {
    taken->emplace(std::move(notification));
    return;
  }
  {
    const core::Lock lock(mutex_);
    queue_.push_back(std::move(notification));
    queued_.store(queue_.size());
  }
  if (blocked_.load() > 0) changed_.notify_one();
  ring_sleeper();
}

Status NotificationInbox::set_handler(std::function<void(Notification)> handler,
                                      core::Deadline deadline) {
  if (core::Inside::is(this)) {
    return Status::error(StatusCode::kFailedPrecondition, {"change the notification handler"},
                         "the handler itself is running in this thread",
                         "change it from another thread, or after it returns");
  }
  // Declared before the lock, so destroyed after it: it may own anything.
  std::function<void(Notification)> previous;
  if (!mode_.lock_until(deadline)) {
    return Status::error(StatusCode::kDeadlineExceeded, {"change the notification handler"},
                         "the handler is still running in another thread",
                         "try again when it has returned; a handler must not block");
  }
  if (handler && !handler_) {
    has_handler_.store(true);
    if (!no_longer_bare(deadline)) {
      has_handler_.store(false);
      mode_.unlock();
      return Status::error(StatusCode::kDeadlineExceeded, {"change the notification handler"},
                           "another thread is just taking a notification", "try again");
    }
  }
  previous = std::exchange(handler_, std::move(handler));
  has_handler_.store(static_cast<bool>(handler_));
  if (handler_) {
    const core::Inside inside(this);
    while (std::optional<Notification> waiting = try_take()) handler_(*std::move(waiting));
    wake_all();
  }
  mode_.unlock();
  return Status();
}

std::optional<Notification> NotificationInbox::take_queued() {
  const core::Lock lock(mutex_);
  if (queue_.empty()) return std::nullopt;
  Notification notification = std::move(queue_.front());
  queue_.pop_front();
  queued_.store(queue_.size());
  return notification;
}

void NotificationInbox::drop_queued() {
  std::deque<Notification> dropped;  // may call the channel: goes after the lock
  const core::Lock lock(mutex_);
  dropped.swap(queue_);
  queued_.store(0);
}

Result<Notification> NotificationInbox::take(LaneDriver& driver, core::Deadline deadline,
                                             std::chrono::nanoseconds spin) {
  const Drive drive(*this, driver);
  std::optional<Notification> next;
  Status outcome = take_driving(driver, deadline, spin, [] { return false; }, next);
  if (!next.has_value()) return outcome;
  return *std::move(next);
}

Result<std::optional<Notification>> NotificationInbox::take_until(
    LaneDriver& driver, core::Deadline deadline, std::chrono::nanoseconds spin,
    const std::function<bool()>& over) {
  const core::Counted taker(takers_until_);
  std::optional<Notification> next;
  FARWRITE_RETURN_IF_ERROR(take_driving(driver, deadline, spin, over, next));
  return next;
}

template <typename Over>
Status NotificationInbox::take_driving(LaneDriver& driver, core::Deadline deadline,
                                       std::chrono::nanoseconds spin, const Over& over,
                                       std::optional<Notification>& next) {
  bool last_look = false;
  while (true) {
    // Reading the clock takes as long as some polls: only a waiter that spins does, and not before
    // it has looked once.
    std::optional<core::SpinBudget> budget;
    const bool spins = spin.count() > 0 && !last_look;
    do {
      // Queued ones first: a receiver that lags leaves the rest in the ring, where it holds the
      // sender back.
      if ((next = try_take()).has_value()) return Status();
      driver.poll_lanes(&next);
      if (next.has_value() || (next = try_take()).has_value() || over()) return Status();
      if (spins && !budget.has_value()) budget.emplace(std::min(spin, deadline.remaining()));
    } while (budget.has_value() && budget->spin() && driver.ended().ok() && !has_handler());
    // Asked before the look that ends it, so nothing that came before the end is lost.
    if (last_look) return driver.ended();
    if (!driver.ended().ok()) {
      last_look = true;
      continue;
    }
    if (has_handler()) return handler_takes(driver.peer_name());
    const std::chrono::nanoseconds left = deadline.remaining();
    if (left.count() == 0) {
      return internal::late({kWait, driver.peer_name()}, driver.peer_state(),
                            "no notification arrived in time",
                            "wait longer, or check whether the peer is alive");
    }
    block(driver, std::min(left, kLongestWaiterSleep), over);
  }
}

template <typename Over>
void NotificationInbox::block(LaneDriver& driver, std::chrono::nanoseconds longest,
                              const Over& over) {
  core::Lock lock(mutex_);
  blocked_.fetch_add(1);
  if (driven_) {
    const std::uint64_t seen = alarms_;
    changed_.wait_for(mutex_, longest, [&]() FW_REQUIRES(mutex_) {
      return !queue_.empty() || !driven_ || alarms_ != seen || over();
    });
  } else {
    driven_ = true;
    lock.unlock();
    sleep_on_doorbells(driver, longest, over);
    lock.lock();
    driven_ = false;
    changed_.notify_one();  // another thread may have to drive now
  }
  blocked_.fetch_sub(1);
}

template <typename Over>
void NotificationInbox::sleep_on_doorbells(LaneDriver& driver, std::chrono::nanoseconds longest,
                                           const Over& over) {
  struct Doorbells {
    std::vector<pollfd> waited_for;
  };
  // Keeps its memory: this is the wake-up path.
  std::vector<pollfd>& doorbells = core::thread_own<Doorbells>().waited_for;
  doorbells.clear();
  doorbells.push_back({wake_.get(), POLLIN, 0});
  sleeping_.store(true);  // ahead of arming: ring_sleeping_driver()
  const bool quiet = driver.arm_lanes(doorbells);
  // That may have taken back what the event loop relies on: a lane rings for one sleeper.
  if (!quiet) wake_event_loop();
  if (quiet && queued_.load() == 0 && !has_handler_.load() && driver.ended().ok() && !over()) {
    const timespec timeout{static_cast<time_t>(longest.count() / 1000000000),
                           static_cast<long>(longest.count() % 1000000000)};
    ::ppoll(doorbells.data(), doorbells.size(), &timeout, nullptr);
  }
  sleeping_.store(false);
  if ((doorbells.front().revents & POLLIN) != 0) silence(wake_);
}

Result<int> NotificationInbox::descriptor() {
  const core::Lock lock(loop_mutex_);
  if (loop_.valid()) return loop_.get();
  loop_ = core::UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
  if (loop_.valid()) loop_wake_ = make_doorbell();
  epoll_event wake{.events = EPOLLIN, .data = {.fd = loop_wake_.get()}};
  if (loop_wake_.valid() && ::epoll_ctl(loop_.get(), EPOLL_CTL_ADD, loop_wake_.get(), &wake) == 0) {
    return loop_.get();
  }
  const int error = errno;
  loop_.reset();
  loop_wake_.reset();
  return Status::system_error(StatusCode::kResourceExhausted,
                              {"make a descriptor for notifications"}, "no descriptor for it",
                              error, "raise the limit of open files (ulimit -n)");
}

Result<bool> NotificationInbox::arm(LaneDriver& driver) {
  if (has_handler()) return handler_takes(driver.peer_name());
  FARWRITE_RETURN_IF_ERROR(descriptor().status());
  const core::Lock lock(loop_mutex_);
  if (rung_.load() && rung_.exchange(false)) silence(loop_wake_);
  armed_.store(true);
  std::vector<pollfd> doorbells;
  bool quiet = driver.arm_lanes(doorbells);
  // A lane's last descriptor may stay readable once the lane waits on another one, or has ended.
  std::erase_if(loop_bells_, [&](const pollfd& known) FW_REQUIRES(loop_mutex_) {
    const bool in_use = std::any_of(doorbells.begin(), doorbells.end(),
                                    [&](const pollfd& bell) { return bell.fd == known.fd; });
    if (!in_use) (void)::epoll_ctl(loop_.get(), EPOLL_CTL_DEL, known.fd, nullptr);  // or closed
    return !in_use;
  });
  for (const pollfd& bell : doorbells) {
    const auto known = std::find_if(loop_bells_.begin(), loop_bells_.end(),
                                    [&](const pollfd& other) { return other.fd == bell.fd; });
    if (known != loop_bells_.end() && known->events == bell.events) continue;
    // poll's and epoll's bits are the same (epoll_ctl(2)).
    epoll_event event{.events = static_cast<std::uint32_t>(bell.events), .data = {.fd = bell.fd}};
    const bool added = known == loop_bells_.end();
    if (::epoll_ctl(loop_.get(), added ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, bell.fd, &event) != 0) {
      return Status::system_error(StatusCode::kResourceExhausted, {kWait},
                                  "epoll does not take the descriptor", errno,
                                  "use wait_notification()");
    }
    if (added) {
      loop_bells_.push_back(bell);
    } else {
      known->events = bell.events;
    }
  }
  quiet = quiet && queued_.load() == 0 && driver.ended().ok();
  if (!quiet) armed_.store(false);
  return quiet;
}

void NotificationInbox::wake_all() {
  {
    const core::Lock lock(mutex_);
    ++alarms_;
  }
  changed_.notify_all();
  ring_sleeper();
}

void NotificationInbox::ring_sleeper() {
  wake_event_loop();
  ring_sleeping_driver();
}

void NotificationInbox::ring_sleeping_driver() {
  if (sleeping_.load()) ring(wake_);
}

void NotificationInbox::wake_event_loop() {
  if (!armed_.load() || !armed_.exchange(false)) return;
  ring(loop_wake_);
  // Behind the ring: arm() in between would silence nothing, and then leave that ring standing.
  rung_.store(true);
}

}  // namespace farwrite::device
