// Meetings: the connections that peers have begun: handshakes, and channels that wait for accept().
#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <thread>

#include "core/byte_stream.h"
#include "core/deadline.h"
#include "core/mutex.h"
#include "device/handshake.h"
#include "farwrite/status.h"

namespace farwrite::device {

class ChannelState;

// A handshake. It has its own thread.
class Meeting {
 public:
  // What this side is to the peer.
  const LocalIdentity& self() const { return self_; }
  // For the meeting's own thread, until it calls Meetings::take_stream().
  core::ByteStream& stream() const { return *stream_; }

  // For core::find_crowding(), under the mutex of Meetings.
  const std::string origin;
  bool waits() const { return stream_ != nullptr && !cut_; }

  Meeting(std::string origin, std::unique_ptr<core::ByteStream> stream, LocalIdentity self)
      : origin(std::move(origin)), self_(std::move(self)), stream_(std::move(stream)) {}

 private:
  friend class Meetings;

  // Ends the handshake early. The peer may have been welcomed just now, so the socket still takes
  // the reason.
  void cut_short();

  const LocalIdentity self_;
  std::unique_ptr<core::ByteStream> stream_;  // changed under the mutex of Meetings
  bool cut_ = false;                          // under that mutex
  std::thread thread_;
  std::atomic<bool> over_{false};
};

// Thread-safe. A crowd of strangers costs a bounded number of descriptors (core/arrival_limits.h).
class Meetings {
 public:
  // Runs `meet` on a new thread. Makes room by cutting another one short, if too many wait. On an
  // error nothing runs, and the stream comes back. Nothing runs, either, after close().
  Status begin(const std::string& origin, std::unique_ptr<core::ByteStream>& stream,
               LocalIdentity self, std::function<void(Meeting&)> meet);

  // Of the thread that meets, once: it takes over the connection, or drops it. `cut` says whether
  // the meeting was cut short, and `why` a user may read.
  struct TakenStream {
    std::unique_ptr<core::ByteStream> stream;
    bool cut = false;
    std::string_view why;
  };
  TakenStream take_stream(Meeting& meeting);
  // The last of that thread. Wakes accept().
  void end(Meeting& meeting);

  // Gives a channel to accept(); dropped after close().
  void add(std::shared_ptr<ChannelState> channel);
  // kResourceExhausted when too many channels of so many lanes wait for accept().
  Status has_room(std::size_t lanes) const;
  // kCancelled after close(), kDeadlineExceeded in time. `endpoint` is for that error.
  Result<std::shared_ptr<ChannelState>> accept(core::Deadline deadline,
                                               const std::string& endpoint);

  // Cuts all meetings short, and ends accept(). Idempotent.
  void close();
  // After close(): true once no meeting runs any more, and nothing waits. False after the deadline:
  // call again.
  bool settle(core::Deadline deadline);
  // In a forked child, where the threads are the parent's.
  void leave_to_parent() FW_NO_THREAD_SAFETY_ANALYSIS;

 private:
  void reap() FW_REQUIRES(mutex_);

  mutable core::Mutex mutex_{core::LockRank::kDevice};
  core::CondVar changed_;
  bool closed_ FW_GUARDED_BY(mutex_) = false;
  std::list<Meeting> meetings_ FW_GUARDED_BY(mutex_);
  // Bounds the log of those cut short.
  core::Deadline quiet_until_ FW_GUARDED_BY(mutex_) = core::Deadline::after({});
  std::deque<std::shared_ptr<ChannelState>> accepted_ FW_GUARDED_BY(mutex_);
};

}  // namespace farwrite::device
