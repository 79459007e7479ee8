#include "stream/streams_state.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/mutex.h"

namespace farwrite::stream {
namespace {

// Notifications that one poll() delivers, so that its thread sees to other things as well.
constexpr int kMostAtOnce = 64;

Status check(const Options& options, const Channel& channel) {
  const auto refuse = [](std::string_view cause, std::string_view remedy) {
    return Status::error(StatusCode::kInvalidArgument, {.operation = "create streams"}, cause,
                         remedy);
  };
  if (options.chunk == 0 || options.lend_from == 0 || options.window == 0) {
    return refuse("chunk, lend_from or window is 0", "use at least 1 byte, or the default");
  }
  if (options.held > options.window / 2 || options.lend_from > options.window) {
    return refuse("held is more than half of the window of " + std::to_string(options.window) +
                      " bytes, or lend_from more than all of it",
                  "use a larger window");
  }
  if (options.message_window < channel.max_message_bytes()) {
    return refuse("message_window is " + std::to_string(options.message_window) + " bytes",
                  "use at least the " + std::to_string(channel.max_message_bytes()) +
                      " bytes of one message");
  }
  return Status();
}

}  // namespace

// Part of the channel's end handler, which the channel drops when this side closes it.
class StreamsState::EndOfChannel {
 public:
  explicit EndOfChannel(std::weak_ptr<StreamsState> streams) : streams_(std::move(streams)) {}
  ~EndOfChannel() {
    if (const auto self = streams_.lock()) {
      self->end(Status::error(StatusCode::kCancelled, {.operation = "use a stream"},
                              "this side has closed the channel", "connect again"));
    }
  }
  EndOfChannel(const EndOfChannel&) = delete;
  EndOfChannel& operator=(const EndOfChannel&) = delete;

 private:
  const std::weak_ptr<StreamsState> streams_;
};

Result<std::shared_ptr<StreamsState>> StreamsState::create(Device device, Channel channel,
                                                           const Options& options) {
  FARWRITE_RETURN_IF_ERROR(check(options, channel));
  if (!channel.claim_notifications()) {
    return Status::error(StatusCode::kAlreadyExists, {"create streams", channel.peer_name()},
                         "the channel has streams or tensors already",
                         "use those, or connect another channel");
  }
  // Not make_shared: the constructor is private.
  std::shared_ptr<StreamsState> state(
      new StreamsState(std::move(device), std::move(channel), options));
  FARWRITE_RETURN_IF_ERROR(state->link_->start());
  // Weak: a callback must not be what keeps the channel open.
  const std::weak_ptr<StreamsState> weak = state;
  Channel& taken = state->link_->channel();
  if (options.polled) {
    FARWRITE_RETURN_IF_ERROR(taken.on_notification(nullptr));
    return state;
  }
  FARWRITE_RETURN_IF_ERROR(taken.on_notification([weak](Notification notification) {
    if (const auto self = weak.lock()) self->take(std::move(notification));
  }));
  const auto end_of_channel = std::make_shared<EndOfChannel>(weak);
  FARWRITE_RETURN_IF_ERROR(taken.on_end([weak, end_of_channel](bool, const Status& reason) {
    if (const auto self = weak.lock()) self->end(reason);
  }));
  return state;
}

StreamsState::~StreamsState() {
  let_channel_go();
  end(Status::error(StatusCode::kCancelled, {.operation = "use a stream"},
                    "this side has let go of the channel's streams", "keep a handle of Streams"));
}

Result<std::shared_ptr<StreamState>> StreamsState::open(std::uint64_t number) {
  FARWRITE_RETURN_IF_ERROR(fork_guard_.check("open a stream"));
  const core::Lock lock(mutex_);
  if (!ended_.ok()) return ended_;
  std::weak_ptr<StreamState>& place = streams_[number];
  if (!place.expired()) {
    return Status::error(StatusCode::kAlreadyExists, {.operation = "open a stream"},
                         "stream " + std::to_string(number) + " is open", "use another number");
  }
  // Rarely, so that a stream costs the same however many there are.
  if (streams_.size() >= tidy_at_) {
    std::erase_if(streams_, [&](const auto& entry) {
      return entry.first != number && entry.second.expired();
    });
    tidy_at_ = std::max(kLeastToTidy, 2 * streams_.size());
  }
  auto stream = std::make_shared<StreamState>(link_, number, options_);
  streams_[number] = stream;
  return stream;
}

Status StreamsState::tune(std::chrono::nanoseconds time) {
  FARWRITE_RETURN_IF_ERROR(fork_guard_.check("tune streams"));
  {
    const core::Lock lock(mutex_);
    if (!ended_.ok()) return ended_;
  }
  Options measured = options();
  FARWRITE_RETURN_IF_ERROR(probe_.tune(measured, time));
  const core::Lock lock(mutex_);
  options_.lend_from = measured.lend_from;
  options_.chunk = measured.chunk;
  return Status();
}

bool StreamsState::poll() {
  if (over_.load() || fork_guard_.in_forked_child() || polling_.exchange(true)) return false;
  bool found = false;
  for (int count = 0; count < kMostAtOnce; ++count) {
    Result<std::optional<Notification>> next = link_->channel().try_notification();
    if (!next.ok()) {
      end(next.status());
      found = true;
      break;
    }
    if (!next->has_value()) break;
    found = true;
    take(**std::move(next));
  }
  polling_.store(false);
  return found;
}

bool StreamsState::arm() {
  if (over_.load() || fork_guard_.in_forked_child()) return true;
  const Result<bool> quiet = link_->channel().arm_notifications();
  if (quiet.ok()) return quiet.value();
  end(quiet.status());
  return true;
}

Options StreamsState::options() const {
  if (fork_guard_.in_forked_child()) return {};
  const core::Lock lock(mutex_);
  return options_;
}

Stats StreamsState::stats() const {
  if (fork_guard_.in_forked_child()) return {};
  StreamLink::StreamCounters& counters = link_->counters();
  const auto load = [](const std::atomic<std::uint64_t>& count) {
    return count.load(std::memory_order_relaxed);
  };
  return {.messages = load(counters.messages),
          .message_bytes = load(counters.message_bytes),
          .lent = load(counters.lent),
          .lent_bytes = load(counters.lent_bytes),
          .staged_bytes = load(counters.staged_bytes),
          .aliased_bytes = load(counters.aliased_bytes),
          .read_bytes = load(counters.read_bytes),
          .held_back_bytes = load(counters.held_back_bytes),
          .credits = load(counters.credits),
          .waits = load(counters.waits)};
}

void StreamsState::take(Notification notification) {
  Result<StreamFrame> frame =
      StreamFrame::decode({notification.message.data(), notification.message.size()});
  if (!frame.ok()) return break_off(frame.status());
  if (frame->kind == FrameKind::kBreak) {
    return end(Status::error(StatusCode::kUnavailable,
                             {.operation = "use a stream", .peer = link_->channel().peer_name()},
                             "the peer has ended all streams of the channel: " + frame->reason(),
                             "connect again"));
  }
  if (frame->kind == FrameKind::kProbe) return probe_.answer(frame.value(), notification.lent);
  if (frame->kind == FrameKind::kProbed) return probe_.take(frame->value);
  std::shared_ptr<StreamState> stream;
  {
    const core::Lock lock(mutex_);
    const auto found = streams_.find(frame->stream);
    if (found != streams_.end()) stream = found->second.lock();
  }
  if (stream != nullptr) {
    return stream->take(frame.value(), std::move(notification.message),
                        std::move(notification.lent));
  }
  const bool sends = frame->kind == FrameKind::kBegin || frame->kind == FrameKind::kData ||
                     frame->kind == FrameKind::kEnd;
  if (!sends) return;
  link_->tell({.kind = FrameKind::kAbort, .stream = frame->stream},
              Status::error(StatusCode::kFailedPrecondition, {.operation = "take a stream"},
                            "stream " + std::to_string(frame->stream) + " is not open here",
                            "open it at both sides before either writes"));
}

void StreamsState::break_off(const Status& reason) {
  {
    const core::Lock lock(mutex_);
    if (!ended_.ok()) return;  // the peer knows, or is gone
  }
  link_->tell({.kind = FrameKind::kBreak}, reason);
  end(reason);
}

void StreamsState::end(const Status& reason) {
  const Status why =
      reason.ok()
          ? Status::error(StatusCode::kUnavailable,
                          {.operation = "use a stream", .peer = link_->channel().peer_name()},
                          "the peer has closed the channel", "connect again")
          : reason;
  std::map<std::uint64_t, std::weak_ptr<StreamState>> streams;
  {
    const core::Lock lock(mutex_);
    if (!ended_.ok()) return;
    ended_ = why;
    over_.store(true);
    streams.swap(streams_);
  }
  probe_.end(why);
  for (const auto& [number, weak] : streams) {
    if (const auto stream = weak.lock()) stream->end(why);
  }
}

}  // namespace farwrite::stream
