#include "grpc/connection.h"

#include <climits>
#include <random>
#include <utility>
#include <vector>

#include "grpc/host.h"
#include "grpc/report.h"
#include "grpc/slices.h"

namespace farwrite::grpc {
namespace {

// TCP has ended and the stream has not: the peer's last bytes may still be on their way.
constexpr std::chrono::seconds kLateEnd{2};
// A connection that gRPC has let go of, with bytes that the peer has not taken.
constexpr std::chrono::seconds kLinger{10};

ByteView view(const grpc_slice& slice) {
  return {reinterpret_cast<const std::byte*>(GRPC_SLICE_START_PTR(slice)),
          GRPC_SLICE_LENGTH(slice)};
}

ByteView behind(ByteView bytes, std::size_t count) {
  return {bytes.data + count, bytes.size - count};
}

Nonce random_nonce() {
  std::random_device random;
  Nonce nonce;
  for (std::uint8_t& byte : nonce) byte = static_cast<std::uint8_t>(random());
  return nonce;
}

std::uint64_t random_number() {
  std::random_device random;
  return (std::uint64_t{random()} << 32) | random();
}

}  // namespace

// --- TCP.

void Connection::read(grpc_slice_buffer* into, grpc_closure* closure, bool urgent,
                      int min_progress) {
  {
    std::unique_lock lock(mutex_);
    if (!over_.ok()) {
      const absl::Status why = over_;
      lock.unlock();
      return below_->schedule(closure, why);
    }
    reader_ = {.into = into, .closure = closure};
    if (reading_ == Way::kTcp) {
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
  {
    const std::lock_guard lock(mutex_);
    reader = std::exchange(reader_, {});
    if (status.ok() && stage_ != Stage::kStays && reading_ == Way::kTcp) {
      watch_incoming(*reader.into);
    }
    breach = breach_;
    guards = reading_ == Way::kStream && !std::exchange(guarding_, true);
  }
  if (!breach.empty()) {
    const absl::Status why = below_->unavailable(breach);
    fail(why);
    return below_->schedule(reader.closure, why);
  }
  write_own_frames();
  if (guards) guard();
  below_->schedule(reader.closure, status);
}

void Connection::write(grpc_slice_buffer* from, grpc_closure* closure, void* argument,
                       int max_frame) {
  {
    std::unique_lock lock(mutex_);
    if (!over_.ok()) {
      const absl::Status why = over_;
      lock.unlock();
      return below_->schedule(closure, why);
    }
    if (writing_ == Way::kTcp) {
      const Writer writer = {from, closure, argument, max_frame};
      if (tcp_writes_ || waits_for_upgrade()) {
        queued_ = writer;
        return;
      }
      if (stage_ != Stage::kStays && stage_ != Stage::kUpgraded) watch_outgoing(from);
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

// Where Farwrite is required, a client's calls do not begin on TCP.
bool Connection::waits_for_upgrade() const {
  const bool offers = stage_ == Stage::kOffered || stage_ == Stage::kConnecting ||
                      stage_ == Stage::kReady || (stage_ == Stage::kUpgraded && switch_due_);
  if (!offers || !outgoing_.has_preface()) return false;
  const Hub* const hub = Hub::existing();
  return hub != nullptr && hub->settings().require;
}

void Connection::tcp_write(const Writer& writer) {
  below_->write(
      writer.from, writer.argument, writer.max_frame,
      [self = shared_from_this()](const absl::Status& status) { self->tcp_has_written(status); });
}

void Connection::tcp_has_written(const absl::Status& status) {
  grpc_closure* written = nullptr;
  Writer queued;
  {
    const std::lock_guard lock(mutex_);
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

void Connection::write_own_frames() {
  {
    const std::lock_guard lock(mutex_);
    if (writing_ != Way::kTcp || tcp_writes_ || !over_.ok() || destroyed_) return;
    if (stage_ == Stage::kStays || !outgoing_.takes_frames()) return;
    if (switch_due_) {
      own_frames_ += frame(UpgradeKind::kSwitch).encode();
      writing_ = Way::kStream;
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
    const std::lock_guard lock(mutex_);
    if (!over_.ok() || destroyed_) return;
  }
  // The stream's end is on its way, or the peer is gone: then the channel ends, or time does.
  if (Hub* const hub = Hub::existing()) {
    hub->keep(
        [weak = weak_from_this(), status, until = std::chrono::steady_clock::now() + kLateEnd] {
          const auto self = weak.lock();
          if (self == nullptr) return true;
          if (std::chrono::steady_clock::now() < until) {
            const std::lock_guard lock(self->mutex_);
            return !self->over_.ok() || self->destroyed_;
          }
          self->fail(status);
          return true;
        });
  }
}

// --- The frames that pass.

void Connection::watch_incoming(const grpc_slice_buffer& slices) {
  for (std::size_t i = 0; i < slices.count && stage_ != Stage::kStays; ++i) {
    ByteView bytes = view(slices.slices[i]);
    while (bytes.size > 0 && stage_ != Stage::kStays && breach_.empty()) {
      if (reading_ == Way::kStream) return breach("bytes follow the switch to Farwrite");
      Http2Watcher::Event event = Http2Watcher::Event::kNone;
      bytes = behind(bytes, incoming_.next(bytes, event));
      saw_incoming(event, bytes.size == 0 && i + 1 == slices.count);
    }
  }
}

void Connection::saw_incoming(Http2Watcher::Event event, bool last) {
  using Event = Http2Watcher::Event;
  switch (event) {
    case Event::kNone:
    case Event::kSettings:
      return;
    case Event::kNotHttp2:
      return stay("it does not begin as HTTP/2 does: TLS, or another protocol");
    case Event::kGoaway:
      if (stage_ != Stage::kUpgraded) stay("it was closing");
      return;
    case Event::kUpgrade:
      return take_frame(last);
    case Event::kSettingsAck:
    case Event::kFrame:
      break;
  }
  // A server with Farwrite answers in front of this; a client with Farwrite offers first.
  if (stage_ == Stage::kOffered && event == Event::kSettingsAck) {
    return stay("the server does not run Farwrite");
  }
  if (stage_ == Stage::kUndecided && incoming_.has_preface()) {
    stay("the client does not run Farwrite");
  }
}

void Connection::watch_outgoing(grpc_slice_buffer* slices) {
  grpc_slice_buffer passed;
  grpc_slice_buffer_init(&passed);
  const auto put_frames = [&] {
    grpc_slice_buffer_add(&passed,
                          grpc_slice_from_copied_buffer(own_frames_.data(), own_frames_.size()));
    own_frames_.clear();
  };
  if (!own_frames_.empty() && outgoing_.takes_frames()) put_frames();
  while (slices->count > 0) {
    grpc_slice rest = grpc_slice_buffer_take_first(slices);
    std::size_t seen = 0;
    while (seen < GRPC_SLICE_LENGTH(rest) && stage_ != Stage::kStays) {
      Http2Watcher::Event event = Http2Watcher::Event::kNone;
      seen += outgoing_.next(behind(view(rest), seen), event);
      saw_outgoing(event);
      if (own_frames_.empty() || !outgoing_.takes_frames()) continue;
      grpc_slice_buffer_add(&passed, grpc_slice_split_head(&rest, seen));
      put_frames();
      seen = 0;
      if (waits_for_upgrade()) {
        grpc_slice_buffer_undo_take_first(slices, rest);
        grpc_slice_buffer_swap(&own_write_, &passed);
        grpc_slice_buffer_destroy(&passed);
        return;
      }
    }
    grpc_slice_buffer_add(&passed, rest);
  }
  grpc_slice_buffer_swap(slices, &passed);
  grpc_slice_buffer_destroy(&passed);
}

void Connection::saw_outgoing(Http2Watcher::Event event) {
  using Event = Http2Watcher::Event;
  if (event == Event::kNotHttp2) {
    return stay("it does not begin as HTTP/2 does: TLS, or another protocol");
  }
  if (event == Event::kGoaway) return stay("it was closing");
  if (event != Event::kSettings || !outgoing_.has_preface() || stage_ != Stage::kUndecided) return;
  Result<Hub*> hub = Hub::get();
  if (!hub.ok()) return stay(hub.status().message());
  upgrade_.client_nonce = random_nonce();
  stage_ = Stage::kOffered;
  own_frames_ += frame(UpgradeKind::kHello).encode();
}

void Connection::take_frame(bool last) {
  const Result<UpgradeFrame> taken = UpgradeFrame::decode(incoming_.payload());
  if (!taken.ok()) {
    if (taken.status().code() == StatusCode::kUnsupported) return stay(taken.status().message());
    return breach(taken.status().message());
  }
  const UpgradeFrame& frame = taken.value();
  const bool hello = frame.kind == UpgradeKind::kHello;
  if (!hello && frame.client_nonce != upgrade_.client_nonce) {
    return breach("an upgrade frame is of another connection");
  }
  if (!hello && frame.kind != UpgradeKind::kAnswer && frame.server_nonce != upgrade_.server_nonce) {
    return breach("an upgrade frame is of another connection");
  }
  if (hello && stage_ == Stage::kUndecided && incoming_.has_preface()) return take_hello(frame);
  if (frame.kind == UpgradeKind::kAnswer && stage_ == Stage::kOffered) return take_answer(frame);
  if (frame.kind == UpgradeKind::kReady && stage_ == Stage::kAnswered) return take_ready(frame);
  const bool switches = stage_ == Stage::kReady || stage_ == Stage::kSwitching;
  if (frame.kind == UpgradeKind::kSwitch && switches) return take_switch(last);
  breach("an upgrade frame comes out of turn");
}

void Connection::take_hello(const UpgradeFrame& frame) {
  Result<Hub*> hub = Hub::get();
  if (!hub.ok()) return stay(hub.status().message());
  const std::string refused = refusal(frame, *hub.value());
  if (!refused.empty()) return stay(refused);
  upgrade_.client_nonce = frame.client_nonce;
  upgrade_.server_nonce = random_nonce();
  peer_device_ = frame.device;
  stage_ = Stage::kAnswered;
  own_frames_ += this->frame(UpgradeKind::kAnswer).encode();
}

void Connection::take_answer(const UpgradeFrame& frame) {
  Hub* const hub = Hub::existing();
  if (hub == nullptr) return stay("this process was forked from the one that connected");
  const std::string refused = refusal(frame, *hub);
  if (!refused.empty()) return stay(refused);
  const Result<Endpoint> endpoint = Endpoint::parse(frame.endpoint);
  if (!endpoint.ok()) return breach("the server's device has no valid address");
  upgrade_.server_nonce = frame.server_nonce;
  upgrade_.stream = random_number();
  peer_device_ = frame.device;
  stage_ = Stage::kConnecting;
  hub->connect(endpoint.value(), peer_device_,
               [self = shared_from_this()](const Result<std::shared_ptr<Pair>>& pair) {
                 self->has_pair(pair);
               });
}

void Connection::take_ready(const UpgradeFrame& frame) {
  Hub* const hub = Hub::existing();
  if (hub == nullptr) return stay("this process was forked from the one that accepted");
  upgrade_.stream = frame.stream;
  stage_ = Stage::kOpening;
  hub->await(peer_device_, [self = shared_from_this()](const Result<std::shared_ptr<Pair>>& pair) {
    self->has_pair(pair);
  });
}

void Connection::take_switch(bool last) {
  if (!last) return breach("bytes follow the switch to Farwrite");
  reading_ = Way::kStream;
  if (stage_ == Stage::kReady) switch_due_ = true;
  stage_ = Stage::kUpgraded;
  Report::get().upgraded();
}

void Connection::stay(const std::string& reason) {
  if (stage_ == Stage::kStays || writing_ == Way::kStream || reading_ == Way::kStream) return;
  stage_ = Stage::kStays;
  own_frames_.clear();
  switch_due_ = false;
  Report::get().stayed(reason);
  const Hub* const hub = Hub::existing();
  if (hub != nullptr && hub->settings().require) {
    breach_ = "Farwrite is required, and this connection cannot use it: " + reason;
  }
}

void Connection::breach(const std::string& what) { breach_ = "the upgrade to Farwrite: " + what; }

// --- The upgrade.

UpgradeFrame Connection::frame(UpgradeKind kind) const {
  UpgradeFrame frame = upgrade_;
  frame.kind = kind;
  Hub* const hub = Hub::existing();
  if (hub == nullptr || kind == UpgradeKind::kReady || kind == UpgradeKind::kSwitch) return frame;
  frame.local = addresses_.local;
  frame.remote = addresses_.remote;
  frame.host = host_identity();
  frame.device = hub->device().uuid();
  if (kind == UpgradeKind::kAnswer) frame.endpoint = hub->device().endpoint().to_string();
  return frame;
}

std::string Connection::refusal(const UpgradeFrame& peer, Hub& hub) {
  const bool mirrored = !addresses_.local.empty() && peer.local == addresses_.remote &&
                        peer.remote == addresses_.local;
  const bool one_host = peer.host == host_identity();
  needs_shm_ = !mirrored;
  if (!mirrored && !one_host) return "a proxy or an address translation is in between";
  if (!one_host && !hub.settings().other_hosts) {
    return "the peer is on another host: set FARWRITE_GRPC_LISTEN to an address of this host that "
           "it reaches";
  }
  return {};
}

void Connection::has_pair(const Result<std::shared_ptr<Pair>>& pair) {
  std::string refused;
  std::shared_ptr<void> watch;
  stream::Stream stream;
  if (!pair.ok()) {
    refused = pair.status().message();
  } else if (needs_shm_ && pair.value()->peer().fabric != FabricKind::kShm) {
    refused = "the two ends of the socket do not see the same addresses, and share no memory";
  } else {
    Result<stream::Stream> opened = pair.value()->streams().open(upgrade_.stream);
    if (opened.ok()) {
      stream = *std::move(opened);
      watch = below_->watch(pair.value());
    } else {
      refused = opened.status().message();
    }
  }
  std::string breach;
  {
    const std::lock_guard lock(mutex_);
    if (!over_.ok() || destroyed_ || stage_ == Stage::kStays) return;
    if (!refused.empty()) {
      stay(refused);
      breach = breach_;
    } else {
      pair_ = pair.value();
      watch_ = std::move(watch);
      stream_ = std::move(stream);
      if (stage_ == Stage::kConnecting) {
        stage_ = Stage::kReady;
        own_frames_ += frame(UpgradeKind::kReady).encode();
      } else {
        stage_ = Stage::kSwitching;
        switch_due_ = true;
      }
    }
  }
  if (!breach.empty()) return fail(below_->unavailable(breach));
  write_own_frames();
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
    const std::lock_guard lock(mutex_);
    reader = std::exchange(reader_, {});
  }
  if (reader.closure == nullptr) return;  // shut down meanwhile
  if (!slices.ok()) {
    return below_->schedule(reader.closure, below_->unavailable(slices.status().message()));
  }
  if (slices->empty()) {
    return below_->schedule(reader.closure, below_->unavailable("Socket closed"));
  }
  Report::get().received(append_slices(*std::move(slices), reader.into));
  below_->schedule(reader.closure, absl::OkStatus());
}

void Connection::stream_write(grpc_slice_buffer* from, grpc_closure* closure) {
  Report::get().sent(from->length);
  {
    const std::lock_guard lock(mutex_);
    stream_writer_ = closure;
  }
  stream_.write(take_slices(from), [self = shared_from_this()](const Status& status) {
    self->stream_has_written(status);
  });
  const std::lock_guard lock(mutex_);
  if (stream_writer_ == nullptr || covered_) return;
  if (Hub* const hub = Hub::existing()) {
    hub->cover();
    covered_ = true;
  }
}

void Connection::stream_has_written(const Status& status) {
  grpc_closure* writer = nullptr;
  {
    const std::lock_guard lock(mutex_);
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
    const std::lock_guard lock(mutex_);
    if (!over_.ok() || destroyed_) return;
    over_ = why.ok() ? absl::UnavailableError("Endpoint shutdown") : why;
    if (reading_ == Way::kStream) reader = std::exchange(reader_, {});
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
    const std::lock_guard lock(mutex_);
    if (!stream_.valid() || writing_ != Way::kStream || std::exchange(finished_, true)) return;
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
    const std::lock_guard lock(mutex_);
    destroyed_ = true;
    watch_ = nullptr;
  }
  below_->destroy();
}

}  // namespace farwrite::grpc
