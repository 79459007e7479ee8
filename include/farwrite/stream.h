/// @file
/// Byte streams over a channel: what a byte transport under an RPC library needs (AR-gRPC, papers
/// O1 to O3). Short slices travel in messages; long ones are lent, and the receiver reads them.
/// Short slices, and long ones that lie one after another in memory, share a message and a lend.
///
/// Bytes of one stream arrive in order, whole and once. Streams of one channel are independent of
/// each other, apart from the channel's lanes: a stream keeps to one lane.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "farwrite/bytes.h"
#include "farwrite/channel.h"
#include "farwrite/device.h"
#include "farwrite/export.h"
#include "farwrite/status.h"

namespace farwrite::stream {

class StreamState;
class StreamsState;

/// Bytes and what keeps them valid. The bytes must not change while a copy of `owner` exists.
struct Slice {
  ByteView bytes = {};                     ///< valid as long as `owner`
  std::shared_ptr<const void> owner = {};  ///< null for bytes that outlive every stream
};

/// How streams move bytes. All sizes in bytes.
struct Options {
  /// Slices of at least this size are lent and read by the peer; shorter ones are gathered into
  /// messages. Streams::tune() finds a value.
  std::uint64_t lend_from = 16384;
  /// What is read, or copied, at a time, so that the receiver has the first bytes early.
  /// Streams::tune() finds a value.
  std::uint64_t chunk = std::uint64_t{1} << 20;
  /// The most bytes of one stream that are lent and not returned. Further bytes wait at the sender.
  /// Both sides need the same value: a stream between different ones ends with an error that names
  /// both, as soon as bytes are sent.
  std::uint64_t window = std::uint64_t{32} << 20;
  /// The most bytes of one stream in messages that the receiving program has not taken. At least
  /// max_message_bytes() of the channel. Both sides need the same value, as for `window`.
  std::uint64_t message_window = std::uint64_t{256} << 10;
  /// A write is done when at most so many bytes still wait at the sender, up to its own last one.
  std::uint64_t write_bound = std::uint64_t{1} << 20;
  /// The program delivers what comes by Streams::poll(), between waits on Streams::descriptor().
  /// Otherwise the pollers of the device deliver.
  bool polled = false;
  /// The most received bytes of one stream that slices may keep in the peer's memory (on one host)
  /// or in this device's, at most half of `window`. Beyond it, bytes are copied to memory of their
  /// own, so that a program that keeps its slices does not stop its peer.
  std::uint64_t held = std::uint64_t{16} << 20;
};

/// Counts of all streams of a channel, since they were created.
struct Stats {
  std::uint64_t messages = 0;         ///< sent, that hold bytes of slices
  std::uint64_t message_bytes = 0;    ///< sent in messages
  std::uint64_t lent = 0;             ///< regions that were lent, of one slice or several
  std::uint64_t lent_bytes = 0;       ///< bytes of them
  std::uint64_t staged_bytes = 0;     ///< of lent_bytes, copied to where a peer can read them
  std::uint64_t aliased_bytes = 0;    ///< received without a copy
  std::uint64_t read_bytes = 0;       ///< received by a read from the peer's memory
  std::uint64_t held_back_bytes = 0;  ///< of read_bytes, read because Options::held was reached
  std::uint64_t credits = 0;          ///< messages that only returned credit
  std::uint64_t waits = 0;  ///< times that a sender had bytes and had to wait for its peer
};

/// One end of a byte stream. Copies share it. Thread-safe. Dropping the last handle is abort(),
/// unless both directions have been finished and read.
class FARWRITE_API Stream {
 public:
  /// At the end of the stream the slices are empty. Otherwise at least one byte.
  using OnRead = std::function<void(Result<std::vector<Slice>>)>;
  /// The outcome of a write or a finish.
  using OnDone = std::function<void(const Status&)>;

  Stream() = default;
  /// @private Made by Streams::open().
  explicit Stream(std::shared_ptr<StreamState> state);
  /// False for a default-constructed handle. Such a handle allows no other call.
  bool valid() const { return handle_ != nullptr; }

  /// Sends slices behind all earlier ones. `done` is called once, perhaps in this call: as
  /// Options::write_bound says, or with the error that ended the stream. Slices in memory of the
  /// device (Device::contains) are sent without a copy; they stay in use after `done`, until their
  /// owner is dropped. Slices that are consecutive parts of one buffer are lent together, also with
  /// short slices in between: pass them in one write. `done` must not block.
  void write(std::vector<Slice> slices, OnDone done);
  /// Takes what has come; waits if nothing has. `on_read` is called once, perhaps in this call, on
  /// any thread, and must not block. One read at a time: kFailedPrecondition for a second one.
  /// After the end, or an error, every further read has the same outcome.
  void read(OnRead on_read);
  /// Ends this direction behind the last write: the peer reads the end. `done` is called once the
  /// peer has taken all bytes. Later writes fail.
  void finish(OnDone done);
  /// Ends both directions at once; the peer's reads and writes fail with `reason`, this side's as
  /// well. What was received and not read is dropped.
  void abort(const Status& reason);

 private:
  struct Handle;
  std::shared_ptr<Handle> handle_;
};

/// All streams of one channel. Copies share them. Thread-safe. The streams end when the last copy
/// is gone, or when this side closes the channel or its device (kCancelled).
class FARWRITE_API Streams {
 public:
  /// Takes the channel over: nothing else gets its notifications and its end any more.
  /// kInvalidArgument for options that cannot work; kResourceExhausted without another thread,
  /// which maps what the peer lends.
  static Result<Streams> create(Device device, Channel channel, const Options& options = {});

  Streams() = default;
  /// @private Made by create().
  explicit Streams(std::shared_ptr<StreamsState> state) : state_(std::move(state)) {}
  /// False for a default-constructed handle. Such a handle allows no other call.
  bool valid() const { return state_ != nullptr; }

  /// This side's end of the stream of that number. Both sides open it before either writes: bytes
  /// for a stream that is not open end it at the sender. A number is used once.
  Result<Stream> open(std::uint64_t number);
  /// Measures the channel, for at most about `time`, and sets Options::lend_from and Options::chunk
  /// for streams that are opened later on this side. The peer only answers.
  Status tune(std::chrono::nanoseconds time = std::chrono::milliseconds(50));
  /// With Options::polled: delivers what has come, in this thread. True if there was something.
  /// Never blocks. While one thread delivers, other threads return false.
  bool poll();
  /// With Options::polled: a descriptor to wait on, as Channel::notification_descriptor().
  Result<int> descriptor();
  /// Before each wait on descriptor(). False: call poll() first. True after the end.
  bool arm();
  /// As Channel::disarm_notifications().
  void disarm();
  /// The options in force.
  Options options() const;
  /// The counts.
  Stats stats() const;

 private:
  std::shared_ptr<StreamsState> state_;
};

}  // namespace farwrite::stream
