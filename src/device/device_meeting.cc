// How a device meets its peers: connect, accept, and the end of it all.
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include "core/log.h"
#include "core/trace.h"
#include "device/device_state.h"

namespace farwrite::device {
namespace {

constexpr std::size_t kMaxMeetings = 64;      // handshakes under way at once
constexpr std::size_t kMaxUnaccepted = 1024;  // channels that wait for accept()
constexpr std::chrono::nanoseconds kRetryConnect = std::chrono::milliseconds(20);

}  // namespace

Result<std::shared_ptr<ChannelState>> DeviceState::connect(const Endpoint& peer,
                                                           std::chrono::nanoseconds timeout) {
  const core::Deadline deadline = core::Deadline::after(timeout);
  FARWRITE_RETURN_IF_ERROR(fork_guard_.check("connect"));
  const core::Gate::Pass pass(gate_);
  while (true) {
    FARWRITE_RETURN_IF_ERROR(usable("connect"));
    auto socket = core::connect_tcp(peer, deadline);
    if (!socket.ok()) {
      const bool nobody_yet = socket.status().code() == StatusCode::kUnavailable;
      if (!nobody_yet || deadline.remaining() < kRetryConnect) return socket.status();
      std::this_thread::sleep_for(kRetryConnect);
      continue;
    }
    auto channel = std::make_shared<ChannelState>(shared_from_this());
    auto stream = make_control_stream(*std::move(socket), identity_, /*connecting=*/true);
    if (!stream.ok()) return stream.status();
    auto introduction = introduce_connecting(
        **stream, identity_, peer.to_string(),
        deadline.earlier(core::Deadline::after(options_.handshake_timeout)), channel.get());
    if (!introduction.ok()) return introduction.status();
    return go_live(std::move(channel), *std::move(introduction), peer.to_string(),
                   *std::move(stream));
  }
}

Result<std::shared_ptr<ChannelState>> DeviceState::go_live(
    std::shared_ptr<ChannelState> channel, Introduction introduction, const std::string& peer_name,
    std::unique_ptr<core::ByteStream> stream) {
  const std::string choice = peer_name + ": " + std::string(to_string(introduction.peer.fabric)) +
                             " (" + introduction.peer.fabric_reason + ")" +
                             (introduction.peer.encrypted ? ", encrypted" : "");
  core::set_keepalive(stream->fd(), options_.host_timeout);
  core::set_send_timeout(stream->fd(), options_.host_timeout);
  const Status started = channel->start(std::move(introduction), peer_name, std::move(stream));
  Status refusal = started;
  if (started.ok()) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!closing_) {
      channels_.push_back(channel);
      channels_opened_.add();
      if (std::find(choices_.begin(), choices_.end(), choice) == choices_.end()) {
        choices_.push_back(choice);
        core::log(core::LogLevel::kInfo, choice);
      }
      // A name may have been published since the channel began to serve lookups.
      loop_->post([channel] { channel->answer_parked_lookups(); });
      return channel;
    }
    refusal = Status::error(StatusCode::kFailedPrecondition, {"connect", peer_name},
                            "the device is closed", "open another one");
  }
  channel->finish();
  return refusal;
}

Result<std::shared_ptr<ChannelState>> DeviceState::accept(std::chrono::nanoseconds timeout) {
  constexpr std::string_view kOperation = "accept";
  const core::Deadline deadline = core::Deadline::after(timeout);
  FARWRITE_RETURN_IF_ERROR(usable(kOperation));
  std::unique_lock<std::mutex> lock(mutex_);
  while (accepted_.empty()) {
    if (closing_) {
      return Status::error(StatusCode::kCancelled, {kOperation}, "the device was closed",
                           "open another one");
    }
    if (deadline.is_never()) {
      changed_.wait(lock);
    } else if (deadline.expired()) {
      return Status::error(StatusCode::kDeadlineExceeded, {kOperation}, "no peer came in time",
                           "connect a peer to " + endpoint().to_string());
    } else {
      changed_.wait_for(lock, deadline.remaining());
    }
  }
  std::shared_ptr<ChannelState> channel = std::move(accepted_.front());
  accepted_.pop_front();
  return channel;
}

void DeviceState::on_incoming() {
  core::UniqueFd socket(
      ::accept4(listener_.socket.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket.valid()) {
    if (errno != EMFILE && errno != ENFILE) return;
    spare_fd_.turn_away(listener_.socket.get());
    handshakes_refused_.add();
    core::log(core::LogLevel::kWarning,
              "a connection was dropped: no file descriptor left; raise ulimit -n");
    return;
  }
  core::set_no_delay(socket.get());
  const std::lock_guard<std::mutex> lock(mutex_);
  reap_meetings_locked();
  if (closing_) return;
  if (meetings_.size() >= kMaxMeetings) {
    // The one that has taken longest makes room: an honest peer is done in milliseconds.
    core::log(core::LogLevel::kWarning, "a slow handshake was cut off: too many at once");
    const auto slowest = std::find_if(meetings_.begin(), meetings_.end(), [](const Meeting& entry) {
      return entry.stream != nullptr && !entry.cut;
    });
    if (slowest == meetings_.end()) {
      handshakes_refused_.add();
      return;
    }
    slowest->cut = true;
    ::shutdown(slowest->stream->fd(), SHUT_RDWR);
  }
  auto stream = make_control_stream(std::move(socket), identity_, /*connecting=*/false);
  if (!stream.ok()) {
    handshakes_refused_.add();
    core::log(core::LogLevel::kWarning, "a connection was dropped: " + stream.status().message());
    return;
  }
  Meeting& meeting = meetings_.emplace_back();
  meeting.stream = *std::move(stream);
  try {
    meeting.thread = std::thread([self = shared_from_this(), &meeting] { self->meet(meeting); });
  } catch (const std::system_error& error) {
    handshakes_refused_.add();
    core::log(core::LogLevel::kWarning,
              std::string("a connection was dropped: no thread to serve it: ") + error.what());
    meetings_.pop_back();
  }
}

void DeviceState::meet(Meeting& meeting) {
  if (too_many_unaccepted()) {
    handshakes_refused_.add();
    core::log(core::LogLevel::kWarning,
              "a connection was dropped: too many channels wait for accept()");
    const std::lock_guard<std::mutex> lock(mutex_);
    meeting.stream.reset();
    meeting.over.store(true);
    return;
  }
  auto channel = std::make_shared<ChannelState>(shared_from_this());
  auto introduction = introduce_accepting(
      *meeting.stream, identity_, core::Deadline::after(options_.handshake_timeout), channel.get());
  if (introduction.ok()) {
    const std::string peer_name = introduction->peer.endpoint.to_string();
    std::unique_ptr<core::ByteStream> stream;
    {
      // close() may be about to shut this socket down.
      const std::lock_guard<std::mutex> lock(mutex_);
      stream = std::move(meeting.stream);
    }
    auto live = go_live(std::move(channel), *std::move(introduction), peer_name, std::move(stream));
    if (live.ok()) {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!closing_) accepted_.push_back(*std::move(live));
    }
  } else {
    handshakes_refused_.add();
    core::log(core::LogLevel::kWarning,
              "a connection was refused: " + introduction.status().message());
    const std::lock_guard<std::mutex> lock(mutex_);
    meeting.stream.reset();
  }
  changed_.notify_all();
  meeting.over.store(true);
}

bool DeviceState::too_many_unaccepted() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return accepted_.size() >= kMaxUnaccepted;
}

void DeviceState::reap_meetings_locked() {
  for (auto meeting = meetings_.begin(); meeting != meetings_.end();) {
    if (meeting->over.load()) {
      meeting->thread.join();
      meeting = meetings_.erase(meeting);
    } else {
      ++meeting;
    }
  }
}

void DeviceState::forget(ChannelState& channel) {
  const core::Gate::Pass pass(forget_gate_);
  std::shared_ptr<ChannelState> forgotten;
  const ChannelStats last = channel.stats();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = std::find_if(channels_.begin(), channels_.end(),
                                    [&](const auto& entry) { return entry.get() == &channel; });
    if (found == channels_.end()) return;
    remember_locked(channel.peer().fabric, last);
    forgotten = std::move(*found);
    channels_.erase(found);
    if (!pass || closing_) {
      finished_.push_back(std::move(forgotten));
      return;
    }
  }
  // The caller may be one of the channel's own callbacks: let it return before the channel goes.
  loop_->post([forgotten] {});
}

Status DeviceState::close(std::chrono::nanoseconds timeout) {
  FARWRITE_RETURN_IF_ERROR(fork_guard_.check("close a device"));
  if (inside_callback()) {
    return Status::error(StatusCode::kFailedPrecondition, {"close a device"},
                         "called inside one of its callbacks", "close it from another thread");
  }
  {
    std::unique_lock<std::mutex> lock(mutex_);
    if (closing_.exchange(true)) {
      const core::Deadline deadline = core::Deadline::after(timeout);
      while (!closed_ && !deadline.expired()) {
        changed_.wait_for(lock, std::min<std::chrono::nanoseconds>(deadline.remaining(),
                                                                   std::chrono::seconds(1)));
      }
      if (closed_) return close_status_;
      return Status::error(StatusCode::kDeadlineExceeded, {"close a device"},
                           "another thread is still closing it", "allow more time");
    }
    for (Meeting& meeting : meetings_) {
      if (meeting.stream != nullptr) ::shutdown(meeting.stream->fd(), SHUT_RDWR);
    }
  }
  changed_.notify_all();
  gate_.close();
  gate_.wait_until_empty();
  if (loop_ != nullptr) {
    loop_->remove_fd(listener_.socket.get());
    loop_->cancel_timer(timer_);
  }
  std::list<Meeting> meetings;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    meetings.swap(meetings_);
    accepted_.clear();
  }
  for (Meeting& meeting : meetings) meeting.thread.join();

  const core::Deadline deadline = core::Deadline::after(timeout);
  Status status;
  const std::vector<std::shared_ptr<ChannelState>> channels = this->channels();
  for (const auto& channel : channels) {
    const Status closed = channel->close(deadline.remaining());
    if (status.ok()) status = closed;
  }
  for (const auto& channel : channels) channel->finish_for_device();
  forget_gate_.close();
  forget_gate_.wait_until_empty();
  names_.clear();
  pollers_.clear();
  std::vector<std::unique_ptr<fabric::Fabric>> fabrics;
  {
    const std::lock_guard<std::mutex> lock(mutex_);  // stats() may be looking
    for (const auto& fabric : fabrics_) {
      add_counters(closed_adapters_, fabric->registration_counters());
    }
    fabrics.swap(fabrics_);
  }
  fabrics.clear();
  loop_.reset();
  std::vector<std::shared_ptr<ChannelState>> finished;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    finished.swap(finished_);
  }
  finished.clear();
  listener_.socket.reset();
  spare_fd_.close();
  if (arena_ != nullptr) arena_->trim();  // regions that users still hold keep their segments
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    closed_ = true;
    close_status_ = status;
  }
  changed_.notify_all();
  core::write_trace_or_warn();
  return status;
}

}  // namespace farwrite::device
