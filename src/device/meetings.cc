#include "device/meetings.h"

#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "core/arrival_limits.h"
#include "core/log.h"
#include "core/poll_until.h"
#include "core/start_thread.h"
#include "device/channel_state.h"

namespace farwrite::device {
namespace {

constexpr std::chrono::seconds kBetweenWarnings(10);

// How many channels may wait for accept(): those that hold half of the process's descriptors. A
// channel holds two for each lane on shm, and a handful more.
std::size_t most_unaccepted(std::size_t lanes) {
  constexpr rlim_t kLeast = 4;
  constexpr rlim_t kMost = 1024;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return kLeast;
  return static_cast<std::size_t>(
      std::clamp<rlim_t>(limit.rlim_cur / 2 / (8 + 2 * lanes), kLeast, kMost));
}

}  // namespace

void Meeting::cut_short() {
  if (stream_ == nullptr) return;
  cut_ = true;
  ::shutdown(stream_->fd(), SHUT_RD);
}

Status Meetings::begin(const std::string& origin, std::unique_ptr<core::ByteStream>& stream,
                       LocalIdentity self, std::function<void(Meeting&)> meet) {
  const core::Lock lock(mutex_);
  reap();
  if (closed_) return Status();
  const auto crowding = core::find_crowding(meetings_, origin, core::ArrivalLimits::of_process());
  if (crowding != meetings_.end()) {
    // It makes room: an honest peer is done in milliseconds.
    if (quiet_until_.expired()) {
      quiet_until_ = core::Deadline::after(kBetweenWarnings);
      core::log(core::LogLevel::kWarning,
                "too many handshakes at once from " + crowding->origin +
                    ": the slowest are closed; check which programs connect from that host");
    }
    crowding->cut_short();
  }
  Meeting& meeting = meetings_.emplace_back(origin, std::move(stream), std::move(self));
  Status started = core::start_thread(meeting.thread_, {"accept"},
                                      [meet = std::move(meet), &meeting] { meet(meeting); });
  if (started.ok()) return started;
  stream = std::move(meeting.stream_);
  meetings_.pop_back();
  return started;
}

Meetings::TakenStream Meetings::take_stream(Meeting& meeting) {
  const core::Lock lock(mutex_);
  return {std::move(meeting.stream_), meeting.cut_,
          closed_ ? "the device is closing" : "too many handshakes at once"};
}

void Meetings::end(Meeting& meeting) {
  changed_.notify_all();
  meeting.over_.store(true);
}

void Meetings::add(std::shared_ptr<ChannelState> channel) {
  const core::Lock lock(mutex_);
  if (!closed_) accepted_.push_back(std::move(channel));
}

Status Meetings::has_room(std::size_t lanes) const {
  const core::Lock lock(mutex_);
  if (accepted_.size() < most_unaccepted(lanes)) return Status();
  return Status::error(StatusCode::kResourceExhausted, {"accept"},
                       std::to_string(accepted_.size()) + " channels wait for accept()",
                       "take them with accept(), or raise ulimit -n");
}

Result<std::shared_ptr<ChannelState>> Meetings::accept(core::Deadline deadline,
                                                       const std::string& endpoint) {
  core::Lock lock(mutex_);
  while (accepted_.empty()) {
    if (closed_) {
      return Status::error(StatusCode::kCancelled, {"accept"}, "the device was closed",
                           "open another one");
    }
    if (deadline.is_never()) {
      changed_.wait(mutex_);
    } else if (deadline.expired()) {
      return Status::error(StatusCode::kDeadlineExceeded, {"accept"}, "no peer connected in time",
                           "connect a peer to " + endpoint);
    } else {
      changed_.wait_for(mutex_, deadline.remaining());
    }
  }
  std::shared_ptr<ChannelState> channel = std::move(accepted_.front());
  accepted_.pop_front();
  return channel;
}

void Meetings::close() {
  const core::Lock lock(mutex_);
  if (std::exchange(closed_, true)) return;
  for (Meeting& meeting : meetings_) meeting.cut_short();
  changed_.notify_all();
}

bool Meetings::settle(core::Deadline deadline) {
  const auto over = [this] {
    const core::Lock lock(mutex_);
    return std::all_of(meetings_.begin(), meetings_.end(),
                       [](const Meeting& meeting) { return meeting.over_.load(); });
  };
  if (!core::poll_until(over, deadline)) return false;
  std::list<Meeting> meetings;
  std::deque<std::shared_ptr<ChannelState>> accepted;
  {
    const core::Lock lock(mutex_);
    meetings.swap(meetings_);
    accepted.swap(accepted_);
  }
  for (Meeting& meeting : meetings) meeting.thread_.join();
  return true;
}

void Meetings::leave_to_parent() {
  for (Meeting& meeting : meetings_) {
    if (meeting.thread_.joinable()) meeting.thread_.detach();
  }
}

void Meetings::reap() {
  for (auto meeting = meetings_.begin(); meeting != meetings_.end();) {
    if (meeting->over_.load()) {
      meeting->thread_.join();
      meeting = meetings_.erase(meeting);
    } else {
      ++meeting;
    }
  }
}

}  // namespace farwrite::device
