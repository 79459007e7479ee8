#include "device/poller.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <utility>

#include "core/cpu_relax.h"

namespace farwrite::device {
namespace {

// Work that no doorbell announces (a full ring) is retried with growing pauses between these.
constexpr std::chrono::nanoseconds kShortestPause = std::chrono::microseconds(20);
constexpr std::chrono::nanoseconds kLongestPause = std::chrono::milliseconds(1);
// A lane that a user's thread polled just now may be left alone a moment later.
constexpr std::chrono::nanoseconds kLookAgain = std::chrono::milliseconds(1);
// Bounds one sleep, so that a wake-up that were lost would be a delay and no hang.
constexpr std::chrono::seconds kLongestSleep(1);

}  // namespace

Result<std::unique_ptr<Poller>> Poller::start(std::chrono::nanoseconds spin) {
  core::UniqueFd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (wake.valid()) return std::unique_ptr<Poller>(new Poller(spin, std::move(wake)));
  return Status::system_error(StatusCode::kResourceExhausted, {"open a device"},
                              "no descriptor for a poller", errno,
                              "raise the limit of open files (ulimit -n)");
}

Poller::Poller(std::chrono::nanoseconds spin, core::UniqueFd wake)
    : spin_(spin), wake_(std::move(wake)), thread_([this] { run(); }) {
  ::pthread_setname_np(thread_.native_handle(), "farwrite-poll");
}

Poller::~Poller() {
  if (fork_guard_.in_forked_child()) {
    thread_.detach();  // it exists only in the parent
    return;
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  kick();
  thread_.join();
}

void Poller::add(std::shared_ptr<PolledLane> lane) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    lanes_.push_back(std::move(lane));
  }
  kick();
}

void Poller::remove(const std::shared_ptr<PolledLane>& lane) {
  std::unique_lock<std::mutex> lock(mutex_);
  std::erase(lanes_, lane);
  if (on_own_thread()) {
    removed_in_round_.push_back(lane.get());
    return;
  }
  const std::uint64_t round = rounds_;
  round_over_.wait(lock, [&] { return !in_round_ || rounds_ != round; });
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
      const std::lock_guard<std::mutex> lock(mutex_);
      if (stopping_) return;
      lanes = lanes_;
      in_round_ = true;
    }
    removed_in_round_.clear();
    const Round round = serve_all(lanes);
    const bool spinning = !round.busy && !round.pending && round.spins && budget.spin();
    std::vector<pollfd> doorbells{{wake_.get(), POLLIN, 0}};
    bool asleep = !round.busy && !spinning;
    bool look_again = false;
    if (asleep && !round.pending) {
      for (const auto& lane : lanes) {
        if (was_removed(*lane)) continue;
        if (!lane->wants_poller()) {
          look_again = lane->look_again() || look_again;
          continue;
        }
        const fabric::Doorbell doorbell = lane->arm();
        if (doorbell.ready) asleep = false;
        if (doorbell.fd >= 0) doorbells.push_back({doorbell.fd, doorbell.events, 0});
      }
    }
    lanes.clear();
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      in_round_ = false;
      ++rounds_;
    }
    round_over_.notify_all();
    if (round.busy) budget = core::SpinBudget(spin_);
    if (asleep && sleep(doorbells, round.pending, look_again)) budget = core::SpinBudget(spin_);
  }
}

bool Poller::sleep(std::vector<pollfd>& doorbells, bool pending, bool look_again) {
  pause_ =
      pending ? std::clamp(pause_ * 2, kShortestPause, kLongestPause) : std::chrono::nanoseconds(0);
  timespec timeout{kLongestSleep.count(), 0};
  if (pending) timeout = {0, static_cast<long>(pause_.count())};
  if (look_again) timeout = {0, kLookAgain.count()};
  const int rang = ::ppoll(doorbells.data(), doorbells.size(), &timeout, nullptr);
  if ((doorbells.front().revents & POLLIN) != 0) {
    std::uint64_t kicks = 0;
    [[maybe_unused]] const ssize_t count = ::read(wake_.get(), &kicks, sizeof(kicks));
  }
  return rang > 0;
}

bool Poller::was_removed(const PolledLane& lane) const {
  return std::find(removed_in_round_.begin(), removed_in_round_.end(), &lane) !=
         removed_in_round_.end();
}

Poller::Round Poller::serve_all(std::vector<std::shared_ptr<PolledLane>>& lanes) {
  Round round;
  for (const auto& lane : lanes) {
    if (was_removed(*lane) || !lane->wants_poller()) continue;
    const fabric::Progress progress = lane->serve();
    round.busy = round.busy || progress.delivered > 0;
    round.pending = round.pending || progress.pending;
    round.spins = round.spins || lane->worth_spinning();
  }
  if (round.busy) pause_ = std::chrono::nanoseconds(0);
  return round;
}

}  // namespace farwrite::device
