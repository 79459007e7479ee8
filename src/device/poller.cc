#include "device/poller.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <utility>

#include "core/cpu_relax.h"
#include "core/inside.h"
#include "core/mutex.h"
#include "core/poll_until.h"
#include "core/start_thread.h"

namespace farwrite::device {
namespace {

// Work that no doorbell announces (a full ring) is retried with growing pauses between these.
constexpr std::chrono::nanoseconds kShortestPause = std::chrono::microseconds(20);
constexpr std::chrono::nanoseconds kLongestPause = std::chrono::milliseconds(1);
// A lane that a user's thread polled just now may be left alone a moment later.
constexpr std::chrono::nanoseconds kLookAgain = std::chrono::milliseconds(1);
// Bounds one sleep, so that a wake-up that were lost would be a delay and no hang.
constexpr std::chrono::seconds kLongestPollerSleep(1);

}  // namespace

Result<std::unique_ptr<Poller>> Poller::start(std::chrono::nanoseconds spin, const void* owner) {
  core::UniqueFd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.valid()) {
    return Status::system_error(StatusCode::kResourceExhausted, {"open a device"},
                                "no descriptor for a poller", errno,
                                "raise the limit of open files (ulimit -n)");
  }
  std::unique_ptr<Poller> poller(new Poller(spin, std::move(wake)));
  const auto body = [self = poller.get(), owner] {
    const core::Inside inside_poller(self);
    const core::Inside inside(owner);
    self->run();
  };
  FARWRITE_RETURN_IF_ERROR(core::start_thread(poller->thread_, {"open a device"}, body));
  ::pthread_setname_np(poller->thread_.native_handle(), "farwrite-poll");
  return poller;
}

Poller::~Poller() {
  if (!thread_.joinable()) return;
  if (fork_guard_.in_forked_child()) {
    thread_.detach();  // it exists only in the parent
    return;
  }
  {
    const core::Lock lock(mutex_);
    stopping_ = true;
  }
  kick();
  thread_.join();
}

void Poller::add(std::shared_ptr<PolledLane> lane) {
  {
    const core::Lock lock(mutex_);
    lanes_.push_back(std::move(lane));
  }
  kick();
}

bool Poller::remove(const std::shared_ptr<PolledLane>& lane, core::Deadline deadline) {
  lane->removed_.store(true);
  {
    const core::Lock lock(mutex_);
    std::erase(lanes_, lane);
  }
  if (core::Inside::is(this)) return true;
  return core::poll_until([&] { return served_.load() != lane.get(); }, deadline);
}

bool Poller::begin(const PolledLane& lane) {
  served_.store(&lane);
  if (!lane.removed_.load()) return true;
  end();
  return false;
}

void Poller::kick() {
  constexpr std::uint64_t kOne = 1;
  [[maybe_unused]] const ssize_t count = ::write(wake_.get(), &kOne, sizeof(kOne));
}

void Poller::run() {
  std::vector<std::shared_ptr<PolledLane>> lanes;
  core::SpinBudget budget(spin_);
  while (true) {
    {
      const core::Lock lock(mutex_);
      if (stopping_) return;
      lanes = lanes_;
    }
    for (const auto& lane : lanes) lane->armed_.store(false);
    const Round round = serve_all(lanes);
    const bool spinning = !round.busy && !round.pending && round.spins && budget.spin();
    std::vector<pollfd> doorbells{{wake_.get(), POLLIN, 0}};
    bool asleep = !round.busy && !spinning;
    bool look_again = false;
    if (asleep && !round.pending) {
      for (const auto& lane : lanes) {
        if (!begin(*lane)) continue;
        if (lane->wants_poller()) {
          const fabric::Doorbell doorbell = lane->arm();
          if (doorbell.ready) asleep = false;
          if (doorbell.fd >= 0) {
            doorbells.push_back({doorbell.fd, doorbell.events, 0});
            lane->armed_.store(true);
          }
        } else {
          look_again = lane->look_again() || look_again;
        }
        end();
      }
    }
    lanes.clear();
    if (round.busy) budget = core::SpinBudget(spin_);
    if (asleep && sleep(doorbells, round.pending, look_again)) budget = core::SpinBudget(spin_);
  }
}

bool Poller::sleep(std::vector<pollfd>& doorbells, bool pending, bool look_again) {
  pause_ =
      pending ? std::clamp(pause_ * 2, kShortestPause, kLongestPause) : std::chrono::nanoseconds(0);
  timespec timeout{kLongestPollerSleep.count(), 0};
  if (pending) timeout = {0, static_cast<long>(pause_.count())};
  if (look_again) timeout = {0, kLookAgain.count()};
  const int rang = ::ppoll(doorbells.data(), doorbells.size(), &timeout, nullptr);
  if ((doorbells.front().revents & POLLIN) != 0) {
    std::uint64_t kicks = 0;
    [[maybe_unused]] const ssize_t count = ::read(wake_.get(), &kicks, sizeof(kicks));
  }
  return rang > 0;
}

Poller::Round Poller::serve_all(std::vector<std::shared_ptr<PolledLane>>& lanes) {
  Round round;
  for (const auto& lane : lanes) {
    if (!begin(*lane)) continue;
    if (lane->wants_poller()) {
      const fabric::Progress progress = lane->serve();
      round.busy = round.busy || progress.delivered > 0;
      round.pending = round.pending || progress.pending;
      round.spins = round.spins || lane->worth_spinning();
    }
    end();
  }
  if (round.busy) pause_ = std::chrono::nanoseconds(0);
  return round;
}

}  // namespace farwrite::device
