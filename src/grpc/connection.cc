#include "grpc/connection.h"

#include <climits>
#include <utility>
#include <vector>

#include "core/mutex.h"
#include "grpc/slices.h"
#include "grpc/transport_counts.h"

namespace farwrite::grpc {
namespace {

// TCP has ended and the stream has not: the peer's last bytes may still be on their way.
constexpr std::chrono::seconds kLateEnd{2};
// A connection that gRPC has let go of, with bytes that the peer has not taken.
constexpr std::chrono::seconds kLinger{10};

}  // namespace

// --- TCP.

void Connection::read(grpc_slice_buffer* into, grpc_closure* closure, bool urgent,
                      int min_progress) {
  {
    core::Lock lock(mutex_);
    if (!over_.ok()) {
      const absl::Status why = over_;
      lock.unlock();
      return below_->schedule(closure, why);
    }
    reader_ = {.into = into, .closure = closure};
    if (reading_ == Transport::kTcp) {
      lock.unlock();
      return tcp_read({.into = into}, urgent, min_progress);
    }
  }
  grpc_slice_buffer_reset_and_unref(into);
  stream_read();
}

void Connection::tcp_read(const Reader& reader, bool urgent, int min_progress) {
  below_->read(
      reader.into, urgent, min_progress,
      [self = shared_from_this()](const absl::Status& status) { self->tcp_has_read(status); });
}

void Connection::tcp_has_read(const absl::Status& status) {
  Reader reader;
  bool guards = false;
  std::string breach;
  std::shared_ptr<Pair> known;
  {
    const core::Lock lock(mutex_);
    reader = std::exchange(reader_, {});
    if (status.ok() && stage_ != Stage::kStays && reading_ == Transport::kTcp) {
      watch_incoming(*reader.into);
    }
    breach = breach_;
    known = std::exchange(known_, nullptr);
    guards = reading_ == Transport::kStream && !std::exchange(guarding_, true);
  }
  if (!breach.empty()) {
    const absl::Status why = below_->unavailable(breach);
    fail(why);
    return below_->schedule(reader.closure, why);
  }
  if (!status.ok()) tcp_has_ended(status);
  if (known != nullptr) has_pair(known);
  write_own_frames();
  if (guards) guard();
  below_->schedule(reader.closure, status);
}

void Connection::write(grpc_slice_buffer* from, grpc_closure* closure, void* argument,
                       int max_frame) {
  {
    core::Lock lock(mutex_);
    if (!over_.ok()) {
      const absl::Status why = over_;
      lock.unlock();
      return below_->schedule(closure, why);
    }
    if (writing_ == Transport::kTcp) {
      const Writer writer = {from, closure, argument, max_frame};
      if (tcp_writes_ || waits_for_upgrade()) {
        queued_ = writer;
        return;
      }
      if (stage_ != Stage::kStays && stage_ != Stage::kUpgraded) watch_outgoing(from);
      if (!breach_.empty()) {
        const absl::Status why = below_->unavailable(breach_);
        lock.unlock();
        fail(why);
        return below_->schedule(closure, why);
      }
      tcp_writes_ = true;
      if (waits_for_upgrade()) {
        queued_ = writer;  // what follows SETTINGS
        lock.unlock();
        return tcp_write({.from = &own_write_, .max_frame = INT_MAX});
      }
      tcp_writer_ = closure;
      lock.unlock();
      return tcp_write(writer);
    }
  }
  stream_write(from, closure);
}

void Connection::tcp_write(const Writer& writer) {
  below_->write(
      writer.from, writer.argument, writer.max_frame,
      [self = shared_from_this()](const absl::Status& status) { self->tcp_has_written(status); });
}

void Connection::tcp_has_written(const absl::Status& status) {
  if (!status.ok()) tcp_has_ended(status);
  grpc_closure* written = nullptr;
  Writer queued;
  {
    const core::Lock lock(mutex_);
    tcp_writes_ = false;
    written = std::exchange(tcp_writer_, nullptr);
    queued = std::exchange(queued_, {});
  }
  if (queued.closure != nullptr) {
    write(queued.from, queued.closure, queued.argument, queued.max_frame);
  }
  write_own_frames();
  if (written != nullptr) below_->schedule(written, status);
}

// The rest of the upgrade does not come. A write that waits for it, or for a peer that has not
// switched, would never end, and gRPC closes no connection under a write.
void Connection::tcp_has_ended(const absl::Status& why) {
  bool streams = false;
  {
    const core::Lock lock(mutex_);
    streams = writing_ == Transport::kStream;
    if (!streams && !Settings::is_required()) return;
  }
  if (streams) {
    fail(why);
  } else {
    shutdown(why);
  }
}

void Connection::write_own_frames() {
  {
    const core::Lock lock(mutex_);
    if (writing_ != Transport::kTcp || tcp_writes_ || !over_.ok() || destroyed_) return;
    if (stage_ == Stage::kStays || !outgoing_.takes_frames()) return;
    if (switch_due_) {
      own_frames_ += frame(UpgradeKind::kSwitch).encode();
      writing_ = Transport::kStream;
      switch_due_ = false;
    }
    if (own_frames_.empty()) return;
    grpc_slice_buffer_reset_and_unref(&own_write_);
    grpc_slice_buffer_add(&own_write_,
                          grpc_slice_from_copied_buffer(own_frames_.data(), own_frames_.size()));
    own_frames_.clear();
    tcp_writes_ = true;
  }
  tcp_write({.from = &own_write_, .max_frame = INT_MAX});
}

// Finds TCP's end while the bytes come by the stream.
void Connection::guard() {
  below_->read(&guard_, false, 1, [self = shared_from_this()](const absl::Status& status) {
    self->guard_ended(status);
  });
}

void Connection::guard_ended(const absl::Status& status) {
  if (status.ok()) {
    return fail(below_->unavailable("the peer wrote to TCP behind its switch to Farwrite"));
  }
  {
    const core::Lock lock(mutex_);
    if (!over_.ok() || destroyed_) return;
  }
  // The stream's end is on its way, or the peer is gone: then the channel ends, or time does.
  if (Hub* const hub = Hub::existing()) {
    hub->keep(
        [weak = weak_from_this(), status, until = std::chrono::steady_clock::now() + kLateEnd] {
          const auto self = weak.lock();
          if (self == nullptr) return true;
          if (std::chrono::steady_clock::now() < until) {
            const core::Lock lock(self->mutex_);
            return !self->over_.ok() || self->destroyed_;
          }
          self->fail(status);
          return true;
        });
  }
}

// --- The stream.

void Connection::stream_read() {
  stream_.read([self = shared_from_this()](Result<std::vector<stream::Slice>> slices) {
    self->stream_has_read(std::move(slices));
  });
}

void Connection::stream_has_read(Result<std::vector<stream::Slice>> slices) {
  Reader reader;
  {
    const core::Lock lock(mutex_);
    reader = std::exchange(reader_, {});
  }
  if (reader.closure == nullptr) return;  // shut down meanwhile
  if (!slices.ok()) {
    return below_->schedule(reader.closure, below_->unavailable(slices.status().message()));
  }
  if (slices->empty()) {
    return below_->schedule(reader.closure, below_->unavailable("Socket closed"));
  }
  TransportCounts::get().received(append_slices(*std::move(slices), reader.into));
  below_->schedule(reader.closure, absl::OkStatus());
}

void Connection::stream_write(grpc_slice_buffer* from, grpc_closure* closure) {
  TransportCounts::get().sent(from->length);
  {
    const core::Lock lock(mutex_);
    stream_writer_ = closure;
  }
  stream_.write(take_slices(from), [self = shared_from_this()](const Status& status) {
    self->stream_has_written(status);
  });
  const core::Lock lock(mutex_);
  if (stream_writer_ == nullptr || covered_) return;
  if (Hub* const hub = Hub::existing()) {
    hub->cover();
    covered_ = true;
  }
}

void Connection::stream_has_written(const Status& status) {
  grpc_closure* writer = nullptr;
  {
    const core::Lock lock(mutex_);
    writer = std::exchange(stream_writer_, nullptr);
    Hub* const hub = Hub::existing();
    if (std::exchange(covered_, false) && hub != nullptr) hub->uncover();
  }
  if (writer == nullptr) return;  // shut down meanwhile
  below_->schedule(writer, status.ok() ? absl::OkStatus() : below_->unavailable(status.message()));
}

// --- The end.

void Connection::shutdown(const absl::Status& why) {
  Reader reader;
  grpc_closure* writer = nullptr;
  Writer queued;
  {
    const core::Lock lock(mutex_);
    if (!over_.ok() || destroyed_) return;
    over_ = why.ok() ? absl::UnavailableError("Endpoint shutdown") : why;
    if (reading_ == Transport::kStream) reader = std::exchange(reader_, {});
    // What was given to TCP ends there.
    writer = std::exchange(stream_writer_, nullptr);
    queued = std::exchange(queued_, {});
    Hub* const hub = Hub::existing();
    if (std::exchange(covered_, false) && hub != nullptr) hub->uncover();
  }
  finish_stream();
  below_->shutdown(why);
  for (grpc_closure* const closure : {reader.closure, writer, queued.closure}) {
    if (closure != nullptr) below_->schedule(closure, why);
  }
}

void Connection::fail(const absl::Status& why) {
  if (stream_.valid()) {
    stream_.abort(Status(StatusCode::kUnavailable, std::string(why.message())));
  }
  shutdown(why);
}

// What was written still reaches the peer, which takes it within a time.
void Connection::finish_stream() {
  {
    const core::Lock lock(mutex_);
    if (!stream_.valid() || writing_ != Transport::kStream || std::exchange(finished_, true))
      return;
  }
  const auto done = std::make_shared<std::atomic<bool>>(false);
  stream_.finish([done](const Status&) { done->store(true); });
  Hub* const hub = Hub::existing();
  if (hub == nullptr) return;
  hub->keep([self = shared_from_this(), done, until = std::chrono::steady_clock::now() + kLinger] {
    return done->load() || std::chrono::steady_clock::now() > until;
  });
}

void Connection::destroy() {
  finish_stream();
  {
    const core::Lock lock(mutex_);
    destroyed_ = true;
    watch_ = nullptr;
  }
  below_->destroy();
}

}  // namespace farwrite::grpc
