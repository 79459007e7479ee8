// How a device closes.
//
// close() goes in steps, each bounded by the caller's deadline and each harmless to repeat. When
// calls or callbacks of other threads do not return in time, the device stays closing: it takes no
// call any more, its threads and channels stay, and the next close() goes on.
#include <algorithm>
#include <atomic>
#include <string>
#include <utility>

#include "core/inside.h"
#include "core/log.h"
#include "core/mutex.h"
#include "core/poll_until.h"
#include "core/start_thread.h"
#include "core/trace.h"
#include "device/device_state.h"

namespace farwrite::device {
namespace {

Status busy(std::string_view what) {
  return Status::error(StatusCode::kDeadlineExceeded, {"close a device"},
                       std::string(what) + " has not returned in time",
                       "let it return and call close() again; the device refuses every other call");
}

}  // namespace

std::shared_ptr<DeviceState> DeviceState::user_handle() {
  return {this, [self = shared_from_this()](DeviceState*) {
            if (self->fork_guard_.in_forked_child()) return;
            // No caller is left to tell of a peer that did not settle.
            if (!self->inside_callback()) {
              const Status closed = self->close(kSettle);
              if (closed.code() != StatusCode::kDeadlineExceeded) return;
              core::log(core::LogLevel::kWarning, closed.message());
            }
            // A callback held the last handle, or has not returned.
            std::thread closer;
            const Status started = core::start_thread(closer, {"close a device"}, [self] {
              while (self->close(kSettle).code() == StatusCode::kDeadlineExceeded) {
              }
            });
            if (started.ok()) {
              closer.detach();
            } else {
              core::log(core::LogLevel::kError, "a device stays open: " + started.message());
            }
          }};
}

Status DeviceState::close(std::chrono::nanoseconds timeout) {
  FARWRITE_RETURN_IF_ERROR(fork_guard_.check("close a device"));
  if (inside_callback()) {
    return Status::error(StatusCode::kFailedPrecondition, {"close a device"},
                         "called inside one of its callbacks", "close it from another thread");
  }
  const core::Inside inside(this);  // callbacks that run here would wait for this call
  const core::Deadline deadline = core::Deadline::after(timeout);
  {
    core::Lock lock(mutex_);
    closing_.store(true);
    while (settling_ && !deadline.expired()) {
      changed_.wait_for(mutex_, deadline.turn());
    }
    if (closed_) return close_status_;
    if (settling_) {
      return Status::error(StatusCode::kDeadlineExceeded, {"close a device"},
                           "another thread is still closing it", "allow more time");
    }
    settling_ = true;
  }
  const Status stopped = stop(deadline);
  if (stopped.ok()) drop_everything();
  Status status;
  {
    const core::Lock lock(mutex_);
    settling_ = false;
    closed_ = stopped.ok();
    status = closed_ ? close_status_ : stopped;
  }
  changed_.notify_all();
  if (stopped.ok()) core::write_trace_or_warn();
  return status;
}

Status DeviceState::stop(core::Deadline deadline) {
  // A peer that does not settle may use up the caller's time, and each step begins with this much.
  const auto in_time = [deadline] { return deadline.later(core::Deadline::after(kCallbackGrace)); };
  meetings_.close();
  gate_.close();
  if (!gate_.wait_until_empty(in_time())) return busy("another thread's call on this device");
  if (loop_ == nullptr) return Status();  // it never started
  acceptor_.reset();
  if (!meetings_.settle(in_time())) return busy("a handshake");
  Status running, silent;  // the first of each
  std::vector<std::shared_ptr<ChannelState>> channels = this->channels();
  // Those that may not settle last, so that they take no time from the others.
  std::partition(channels.begin(), channels.end(),
                 [](const auto& channel) { return channel->peer_state() != PeerState::kSilent; });
  for (const auto& channel : channels) {
    const Status closed = channel->close(deadline.remaining());
    Status& kind = closed.code() == StatusCode::kDeadlineExceeded ? running : silent;
    if (kind.ok()) kind = closed;
  }
  if (!running.ok()) return running;
  close_status_ = silent;
  // Callbacks on the control loop, which the steps below wait for.
  if (!loop_comes_round(in_time())) return busy("a callback on the control loop");
  const auto parted = [&channels] {
    bool all = true;
    for (const auto& channel : channels) all = channel->part() && all;
    return all;
  };
  // A peer that does not answer in time loses what its host has not received.
  (void)core::poll_until(parted, in_time());
  for (const auto& channel : channels) {
    if (!channel->finish(in_time()))
      return busy("a callback of the channel to " + channel->peer_name());
  }
  return Status();
}

bool DeviceState::loop_comes_round(core::Deadline deadline) {
  const auto round = std::make_shared<std::atomic<bool>>(false);
  loop_->post([round] { round->store(true); });
  return core::poll_until([&round] { return round->load(); }, deadline);
}

void DeviceState::drop_everything() {
  if (loop_ != nullptr) loop_->cancel_timer(timer_);
  loop_gate_.close();
  (void)loop_gate_.wait_until_empty(core::Deadline::never());  // nothing in it waits
  names_.clear();
  pollers_.clear();
  std::vector<std::unique_ptr<fabric::Fabric>> fabrics;
  {
    const core::Lock lock(mutex_);  // stats() may be looking
    for (const auto& fabric : fabrics_) {
      add_counters(closed_adapters_, fabric->registration_counters());
    }
    fabrics.swap(fabrics_);
  }
  fabrics.clear();
  loop_.reset();
  std::vector<std::shared_ptr<ChannelState>> finished;
  {
    const core::Lock lock(mutex_);
    finished.swap(finished_);
  }
  finished.clear();
  listener_.socket.reset();
  if (arena_ != nullptr) arena_->retire();  // regions that users still hold keep their segments
}

void DeviceState::post(std::function<void()> function) {
  const core::Gate::Pass pass(loop_gate_);
  if (pass) loop_->post(std::move(function));
}

void DeviceState::run_later(std::chrono::nanoseconds delay, std::function<void()> function) {
  const core::Gate::Pass pass(loop_gate_);
  if (!pass) return;
  const auto timer = std::make_shared<std::atomic<core::EventLoop::TimerId>>(0);
  // Not by loop_, which is null while the loop ends and this still runs.
  core::EventLoop& loop = *loop_;
  *timer = loop.every(delay, [&loop, timer, function = std::move(function)]() mutable {
    if (const auto once = std::exchange(function, nullptr)) once();
    // Its number may not be stored yet: then the next turn ends the timer.
    loop.cancel_timer(timer->load());
  });
}

void DeviceState::forget(ChannelState& channel) {
  const core::Gate::Pass pass(loop_gate_);
  std::shared_ptr<ChannelState> forgotten;
  const ChannelStats last = channel.stats();
  {
    const core::Lock lock(mutex_);
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

}  // namespace farwrite::device
