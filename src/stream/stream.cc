#include "stream/stream.h"

#include <utility>

#include "core/fork_guard.h"
#include "core/left_to_parent.h"
#include "stream/streams_state.h"

namespace farwrite::stream {

// What the copies of a Stream share: the stream is aborted with the last of them.
struct Stream::Handle {
  explicit Handle(std::shared_ptr<StreamState> stream) : state(std::move(stream)) {}
  ~Handle() {
    if (fork_guard.in_forked_child()) return;
    state->abort(Status::error(StatusCode::kCancelled, {.operation = "use a stream"},
                               "its program has dropped it", "open another stream"));
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  const core::ForkGuard fork_guard;
  const std::shared_ptr<StreamState> state;
};

Stream::Stream(std::shared_ptr<StreamState> state)
    : handle_(std::make_shared<Handle>(core::left_to_parent(std::move(state)))) {}

void Stream::write(std::vector<Slice> slices, OnDone done) {
  if (const Status forked = handle_->fork_guard.check("write a stream"); !forked.ok()) {
    return done(forked);
  }
  handle_->state->outgoing().write(std::move(slices), std::move(done));
}

void Stream::read(OnRead on_read) {
  if (Status forked = handle_->fork_guard.check("read a stream"); !forked.ok()) {
    return on_read(std::move(forked));
  }
  handle_->state->incoming().read(std::move(on_read));
}

void Stream::finish(OnDone done) {
  if (const Status forked = handle_->fork_guard.check("finish a stream"); !forked.ok()) {
    return done(forked);
  }
  handle_->state->outgoing().finish(std::move(done));
}

void Stream::abort(const Status& reason) {
  if (!handle_->fork_guard.in_forked_child()) handle_->state->abort(reason);
}

Result<Streams> Streams::create(Device device, Channel channel, const Options& options) {
  Result<std::shared_ptr<StreamsState>> state =
      StreamsState::create(std::move(device), std::move(channel), options);
  if (!state.ok()) return state.status();
  // A poller may hold the state for a moment longer than the last handle, which is what counts.
  StreamsState* const raw = state->get();
  return Streams(std::shared_ptr<StreamsState>(
      raw, [handle = core::left_to_parent(*std::move(state))](StreamsState* streams) {
        streams->let_channel_go();
      }));
}

Result<Stream> Streams::open(std::uint64_t number) {
  Result<std::shared_ptr<StreamState>> state = state_->open(number);
  if (!state.ok()) return state.status();
  return Stream(*std::move(state));
}

Status Streams::tune(std::chrono::nanoseconds time) { return state_->tune(time); }

bool Streams::poll() { return state_->poll(); }

Result<int> Streams::descriptor() { return state_->descriptor(); }

bool Streams::arm() { return state_->arm(); }

void Streams::disarm() { state_->disarm(); }

Options Streams::options() const { return state_->options(); }

Stats Streams::stats() const { return state_->stats(); }

}  // namespace farwrite::stream
