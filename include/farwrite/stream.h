/// @file
/// Byte streams over a channel: what a byte transport under an RPC library needs (AR-gRPC, papers
/// O1 to O3). Short slices travel in messages; long ones are lent, and the receiver reads them.
/// Short slices, and long ones that lie one after another in memory, share a message and a lend.
///
/// Bytes of one stream arrive in order, whole and once. Streams of one channel are independent of
/// each other, apart from the channel's lanes: a stream keeps to one lane.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "farwrite/bytes.h"
#include "farwrite/c_stream.h"
#include "farwrite/channel.h"
#include "farwrite/completion.h"
#include "farwrite/device.h"
#include "farwrite/internal/bridge.h"
#include "farwrite/internal/namespace.h"
#include "farwrite/status.h"
#include "farwrite/stream_types.h"

FARWRITE_BEGIN

namespace internal {

/// @private
using OnStreamRead = std::function<void(Result<std::vector<stream::Slice>>)>;

/// @private A fw_done for a call without a callback.
inline void ignore_done(void* /*context*/, const fw_status* /*status*/) noexcept {}

/// @private A fw_on_read: calls what the context holds, and frees it.
inline void call_on_read(void* context, const fw_status* status, const fw_slice* slices,
                         std::uint64_t count) noexcept {
  const std::unique_ptr<OnStreamRead> on_read(static_cast<OnStreamRead*>(context));
  if (status != nullptr) return (*on_read)(copy_of(status));
  std::vector<stream::Slice> read;
  read.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    const ByteView bytes(slices[i].data, static_cast<std::size_t>(slices[i].bytes));
    read.push_back({bytes, owned(slices[i].lease, fw_lease_release)});
  }
  (*on_read)(std::move(read));
}

/// @private A slice for the C ABI, which takes the lease over.
inline fw_slice to_c_slice(stream::Slice slice) {
  using Owner = Context<std::shared_ptr<const void>>;
  fw_slice c = {slice.bytes.data, slice.bytes.size, nullptr};
  if (slice.owner.use_count() == 0) return c;  // an owner that points to null may hold an object
  // Fails for a NULL function alone.
  fw_status_free(fw_lease_make(Owner::release, Owner::make(std::move(slice.owner)), &c.lease));
  return c;
}

}  // namespace internal

namespace stream {

/// One end of a byte stream. Copies share it. Thread-safe. Dropping the last handle is abort(),
/// unless both directions have been finished and read.
class Stream {
 public:
  /// At the end of the stream the slices are empty. Otherwise at least one byte.
  using OnRead = std::function<void(Result<std::vector<Slice>>)>;
  /// The outcome of a write or a finish.
  using OnDone = std::function<void(const Status&)>;

  Stream() = default;
  /// @private Made by Streams::open(), takes the handle over.
  explicit Stream(fw_stream* handle) : handle_(internal::owned(handle, fw_stream_release)) {}
  /// False for a handle that was default-constructed or moved from. It allows no other call.
  bool valid() const { return handle_ != nullptr; }

  /// Sends slices behind all earlier ones. `done` is called once, perhaps in this call: as
  /// Options::write_bound says, or with the error that ended the stream. Slices in memory of the
  /// device (Device::contains) are sent without a copy; they stay in use after `done`, until their
  /// owner is dropped. Slices that are consecutive parts of one buffer are lent together, also with
  /// short slices in between: pass them in one write. `done` must not block.
  void write(std::vector<Slice> slices, OnDone done);
  /// Takes what has come; waits if nothing has. `on_read` is called once, perhaps in this call, on
  /// any thread, and must not block. One read at a time: kFailedPrecondition for a second one.
  /// After the end, or an error, every further read has the same outcome. An empty `on_read`
  /// reads nothing.
  void read(OnRead on_read);
  /// Ends this direction behind the last write: the peer reads the end. `done` is called once the
  /// peer has taken all bytes. Later writes fail.
  void finish(OnDone done) {
    post(std::move(done), [this](fw_done call, void* context) {
      return fw_stream_finish(handle_.get(), call, context);
    });
  }
  /// Ends both directions at once; the peer's reads and writes fail with `reason`, this side's as
  /// well. What was received and not read is dropped.
  void abort(const Status& reason) {
    fw_stream_abort(handle_.get(), static_cast<int>(reason.code()), reason.message().c_str());
  }

 private:
  // Passes `done` to a call of the C ABI. This handle may be gone when it returns.
  template <typename Call>
  static void post(OnDone done, const Call& call);

  std::shared_ptr<fw_stream> handle_;
};

/// All streams of one channel. Copies share them. Thread-safe. The streams end when the last copy
/// is gone, or when this side closes the channel or its device (kCancelled). A channel has streams
/// once at a time, and no tensors beside them.
class Streams {
 public:
  /// Takes the channel over: nothing else gets its notifications and its end any more.
  /// kInvalidArgument for options that cannot work; kAlreadyExists if the channel has streams, or
  /// an edge of tensors is open; kResourceExhausted without another thread, which maps what the
  /// peer lends.
  static Result<Streams> create(Device device, Channel channel, const Options& options = {});

  Streams() = default;
  /// @private Made by create(), takes the handle over.
  explicit Streams(fw_streams* handle) : handle_(internal::owned(handle, fw_streams_release)) {}
  /// False for a handle that was default-constructed or moved from. It allows no other call.
  bool valid() const { return handle_ != nullptr; }

  /// This side's end of the stream of that number. Both sides open it before either writes: bytes
  /// for a stream that is not open end it at the sender. A number is used once.
  Result<Stream> open(std::uint64_t number);
  /// Measures the channel, for at most about `time`, and sets Options::lend_from and Options::chunk
  /// for streams that are opened later on this side. The peer only answers. kDeadlineExceeded if
  /// it does not within 5 s.
  Status tune(std::chrono::nanoseconds time = std::chrono::milliseconds(50)) {
    return internal::taken(fw_streams_tune(handle(), internal::to_ns(time)));
  }
  /// With Options::polled: delivers what has come, in this thread. True if there was something.
  /// Never blocks. While one thread delivers, other threads return false.
  bool poll() { return fw_streams_poll(handle()) != 0; }
  /// With Options::polled: a descriptor to wait on, as Channel::notification_descriptor().
  Result<int> descriptor();
  /// Before each wait on descriptor(). False: call poll() first. True after the end.
  bool arm() { return fw_streams_arm(handle()) != 0; }
  /// As Channel::disarm_notifications().
  void disarm() { fw_streams_disarm(handle()); }
  /// The options in force.
  Options options() const;
  /// The counts.
  Stats stats() const;

 private:
  fw_streams* handle() const { return handle_.get(); }

  std::shared_ptr<fw_streams> handle_;
};

template <typename Call>
void Stream::post(OnDone done, const Call& call) {
  if (!done) return fw_status_free(call(internal::ignore_done, nullptr));
  auto kept = std::make_unique<internal::Done>(std::move(done));
  fw_status* const refused = call(internal::call_done, kept.get());
  if (refused != nullptr) return (*kept)(internal::taken(refused));
  (void)kept.release();  // call_done() frees it
}

inline void Stream::write(std::vector<Slice> slices, OnDone done) {
  std::array<fw_slice, 8> few;
  std::vector<fw_slice> many;
  if (slices.size() > few.size()) many.resize(slices.size());
  fw_slice* const all = many.empty() ? few.data() : many.data();
  const auto to_c = [](Slice& slice) { return internal::to_c_slice(std::move(slice)); };
  std::transform(slices.begin(), slices.end(), all, to_c);
  post(std::move(done), [&](fw_done call, void* context) {
    return fw_stream_write(handle_.get(), all, slices.size(), call, context);
  });
}

inline void Stream::read(OnRead on_read) {
  if (!on_read) return;
  auto kept = std::make_unique<OnRead>(std::move(on_read));
  fw_status* const refused = fw_stream_read(handle_.get(), internal::call_on_read, kept.get());
  if (refused != nullptr) return (*kept)(internal::taken(refused));
  (void)kept.release();  // call_on_read() frees it
}

inline Result<Streams> Streams::create(Device device, Channel channel, const Options& options) {
  fw_stream_options c = {};
  c.struct_size = sizeof(c);
  c.lend_from = options.lend_from;
  c.chunk = options.chunk;
  c.window = options.window;
  c.message_window = options.message_window;
  c.write_bound = options.write_bound;
  c.held = options.held;
  c.polled = options.polled ? 1 : 0;
  c.exact = 1;
  fw_streams* streams = nullptr;
  FARWRITE_RETURN_IF_ERROR(
      internal::taken(fw_streams_create(device.handle(), channel.handle(), &c, &streams)));
  return Streams(streams);
}

inline Result<Stream> Streams::open(std::uint64_t number) {
  fw_stream* opened = nullptr;
  FARWRITE_RETURN_IF_ERROR(internal::taken(fw_streams_open(handle(), number, &opened)));
  return Stream(opened);
}

inline Result<int> Streams::descriptor() {
  int descriptor = -1;
  FARWRITE_RETURN_IF_ERROR(internal::taken(fw_streams_descriptor(handle(), &descriptor)));
  return descriptor;
}

inline Options Streams::options() const {
  fw_stream_options known = {};
  known.struct_size = sizeof(known);
  fw_streams_options(handle(), &known);
  Options options;
  options.lend_from = known.lend_from;
  options.chunk = known.chunk;
  options.window = known.window;
  options.message_window = known.message_window;
  options.write_bound = known.write_bound;
  options.held = known.held;
  options.polled = known.polled != 0;
  return options;
}

inline Stats Streams::stats() const {
  fw_stream_stats known = {};
  known.struct_size = sizeof(known);
  fw_streams_stats(handle(), &known);
  Stats stats;
  stats.messages = known.messages;
  stats.message_bytes = known.message_bytes;
  stats.lent = known.lent;
  stats.lent_bytes = known.lent_bytes;
  stats.staged_bytes = known.staged_bytes;
  stats.aliased_bytes = known.aliased_bytes;
  stats.read_bytes = known.read_bytes;
  stats.held_back_bytes = known.held_back_bytes;
  stats.credits = known.credits;
  stats.waits = known.waits;
  return stats;
}

}  // namespace stream
FARWRITE_END
