// Incoming: the receiving direction of one stream.
//
// Bytes come in messages, or lent with them: those are mapped where the fabric maps memory, else
// read, a chunk at a time and several at once. Either way the program gets them in order, as soon
// as the first are there.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "core/mutex.h"
#include "stream/data_pattern.h"
#include "stream/one_at_a_time.h"
#include "stream/stream.h"
#include "stream/stream_link.h"

namespace farwrite::stream {

// Thread-safe. Callbacks are called without a lock.
class Incoming : public std::enable_shared_from_this<Incoming> {
 public:
  Incoming(std::shared_ptr<StreamLink> link, std::uint64_t number, const Options& options)
      : link_(std::move(link)), number_(number), options_(options) {}

  void read(Stream::OnRead on_read);

  // What the peer sends. An error: it breaks the rules.
  Status take_begin(std::uint64_t window, ByteView payload);
  Status take_data(std::vector<std::byte> message, ByteView payload, RemoteRegion lent);
  Status take_end();
  // Whether the program has everything, up to the end.
  bool complete() const;
  // No more comes. What has come is still read, unless it is `dropped`.
  void fail(const Status& reason, bool dropped);

 private:
  // The next bytes for the program.
  struct ReadyBytes {
    std::vector<Slice> slices = {};
    std::uint64_t bytes = 0;
    std::uint64_t credit = 0;  // that goes back when they are taken
    bool ready = false;
  };
  // A data frame that was not looked at, because something in front of it has to come first.
  struct DeferredFrame {
    std::shared_ptr<const std::vector<std::byte>> message;
    DataPattern pattern;                  // what is left of it
    RemoteRegion lent = {};               // invalid if all bytes are in the message
    std::uint64_t offset = 0;             // of lent memory: taken so far
    std::uint64_t credit = kFrameCredit;  // its own, which its first piece brings back
  };

  void go_on();
  // Each returns whether there may be more to do.
  bool fetch();
  bool deliver();

  // The bytes of `pattern`, which are of the frame.
  std::shared_ptr<ReadyBytes> add_piece(const DataPattern& pattern, DeferredFrame& frame)
      FW_REQUIRES(mutex_);
  // These release the mutex meanwhile.
  bool fetch_lent(DeferredFrame& frame) FW_REQUIRES(mutex_);
  bool alias(DeferredFrame& frame) FW_REQUIRES(mutex_);
  void read_chunk(DeferredFrame& frame, bool held_back) FW_REQUIRES(mutex_);
  void read_over(ReadyBytes& piece, const Status& status) FW_EXCLUDES(mutex_);
  void reached(const Status& status) FW_EXCLUDES(mutex_);
  bool empty() const FW_REQUIRES(mutex_) { return pieces_.empty() && deferred_.empty(); }
  // Counts bytes that slices keep until they are dropped.
  std::function<void()> hold(std::uint64_t bytes);

  const std::shared_ptr<StreamLink> link_;
  const std::uint64_t number_;
  const Options options_;
  OneAtATime going_on_;
  // Slices outlive the stream.
  const std::shared_ptr<std::atomic<std::uint64_t>> held_ =
      std::make_shared<std::atomic<std::uint64_t>>(0);

  mutable core::Mutex mutex_{core::LockRank::kStream};
  std::deque<std::shared_ptr<ReadyBytes>> pieces_ FW_GUARDED_BY(mutex_);
  std::deque<DeferredFrame> deferred_ FW_GUARDED_BY(mutex_);
  std::uint64_t unread_ FW_GUARDED_BY(mutex_) = 0;         // bytes of pieces_
  std::uint64_t unread_credit_ FW_GUARDED_BY(mutex_) = 0;  // of pieces_ and deferred_
  std::uint64_t credit_due_ FW_GUARDED_BY(mutex_) = 0;
  std::uint32_t reads_ FW_GUARDED_BY(mutex_) = 0;  // under way
  bool reaching_ FW_GUARDED_BY(mutex_) = false;
  bool begun_ FW_GUARDED_BY(mutex_) = false;
  bool ended_ FW_GUARDED_BY(mutex_) = false;
  bool told_taken_ FW_GUARDED_BY(mutex_) = false;
  Status failed_ FW_GUARDED_BY(mutex_);
  Stream::OnRead reader_ FW_GUARDED_BY(mutex_);
};

}  // namespace farwrite::stream
