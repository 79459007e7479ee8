// Outgoing: the sending direction of one stream.
//
// Slices wait in a queue until the peer allows them: bytes in messages need credit, which the peer
// returns as its program takes them, and lent bytes have room in a window until the peer returns
// them. Both bounds are the sender's own care; the receiver checks the first one.
//
// A frame gathers as many slices as one message and one lent region can carry. Long slices share a
// region if they lie one after another in the device's memory, or are copied to such memory.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "core/mutex.h"
#include "stream/one_at_a_time.h"
#include "stream/stream.h"
#include "stream/stream_link.h"

namespace farwrite::stream {

// Thread-safe. Callbacks are called without a lock.
class Outgoing : public std::enable_shared_from_this<Outgoing> {
 public:
  Outgoing(std::shared_ptr<StreamLink> link, std::uint64_t number, const Options& options)
      : link_(std::move(link)),
        number_(number),
        options_(options),
        credit_(options.message_window) {}

  void write(std::vector<Slice> slices, Stream::OnDone done);
  void finish(Stream::OnDone done);
  // The peer's program has taken so many bytes of messages. False if that is more than were sent.
  bool add_credit(std::uint64_t bytes);
  // The peer's program has been given everything. False before the end was sent.
  bool taken();
  // Whether the peer's program has everything, up to the end.
  bool complete() const;
  // Every write and finish that is not done, and every later one, ends with `reason`.
  void fail(const Status& reason);

 private:
  struct FramePart {
    Slice slice = {};
    bool lent = false;  // else it is copied into the message
  };
  // One frame to be sent.
  struct NextFrame {
    FrameKind kind = FrameKind::kData;
    std::vector<FramePart> parts;
    std::uint64_t payload = 0;  // of the message: the pattern
    std::uint64_t inline_bytes = 0;
    ByteView region = {};  // all that is lent; of staged bytes, only the size
    bool staged = false;   // lent bytes are to be copied into memory that the peer can read
  };
  struct Write {
    std::uint64_t end = 0;  // position in the stream behind its last byte
    Stream::OnDone done;
  };

  // Takes the slices, or the end, and `done`. An error takes nothing.
  Status queue(std::vector<Slice> slices, Stream::OnDone& done, bool end);
  void pump();
  bool next(NextFrame& step);
  // Each adds to the frame what it can of the slice at the front. False if that is nothing.
  bool gather_lent(NextFrame& step) FW_REQUIRES(mutex_);
  bool gather_inline(NextFrame& step) FW_REQUIRES(mutex_);
  void add_part(NextFrame& step, std::uint64_t bytes, bool lent) FW_REQUIRES(mutex_);
  bool extends(ByteView region, ByteView memory);
  std::uint64_t most_payload() {
    return link_->channel().max_message_bytes() - StreamFrame::kHeadBytes;
  }
  void send_begin();
  void tell(const std::vector<std::byte>& message);
  void send_data(NextFrame& step);
  // Adds what a step sends to the counters, or takes it back.
  void count(const NextFrame& step, bool sent);
  Completion lend(ByteView message, const NextFrame& step);
  void returned(std::uint64_t bytes);
  // The lend was refused: the bytes go in messages, unless returned memory may make room.
  void not_lent(NextFrame& step, const Status& status);
  void end_writes();

  const std::shared_ptr<StreamLink> link_;
  const std::uint64_t number_;
  const Options options_;
  OneAtATime pumping_;

  mutable core::Mutex mutex_{core::LockRank::kStream};
  std::deque<Slice> waiting_ FW_GUARDED_BY(mutex_);
  std::deque<Write> writes_ FW_GUARDED_BY(mutex_);
  std::uint64_t written_ FW_GUARDED_BY(mutex_) = 0;
  std::uint64_t sent_ FW_GUARDED_BY(mutex_) = 0;
  std::uint64_t credit_ FW_GUARDED_BY(mutex_);    // bytes and frames that the peer still takes
  std::uint64_t lent_ FW_GUARDED_BY(mutex_) = 0;  // bytes that are lent and not returned
  std::uint64_t by_message_ FW_GUARDED_BY(mutex_) =
      0;  // of the front of the queue, bytes that cannot be lent
  bool no_lends_ FW_GUARDED_BY(mutex_) = false;  // the peer's release knows none
  bool ending_ FW_GUARDED_BY(mutex_) = false;
  bool begun_ FW_GUARDED_BY(mutex_) = false;  // the peer has the windows
  bool end_sent_ FW_GUARDED_BY(mutex_) = false;
  bool taken_ FW_GUARDED_BY(mutex_) = false;
  Stream::OnDone finished_ FW_GUARDED_BY(mutex_);
  Status failed_ FW_GUARDED_BY(mutex_);
};

}  // namespace farwrite::stream
