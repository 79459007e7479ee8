// ControlConnection: frames to and from one peer after the handshake, on the device's event loop.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "core/byte_stream.h"
#include "core/event_loop.h"
#include "core/mutex.h"
#include "device/frame.h"
#include "farwrite/bytes.h"
#include "farwrite/status.h"

namespace farwrite::device {

// Thread-safe. Callbacks run on the loop's thread.
class ControlConnection {
 public:
  using OnFrame = std::function<void(ControlFrameType, ByteView body)>;
  using OnEnd = std::function<void(const Status&)>;

  // `on_end` is called once when the connection ends or the peer breaks the protocol, which it is
  // told in a REFUSE; not after close(). Both callbacks may be called before the constructor's
  // caller goes on.
  ControlConnection(std::unique_ptr<core::ByteStream> stream, core::EventLoop& loop,
                    OnFrame on_frame, OnEnd on_end);
  ~ControlConnection();
  ControlConnection(const ControlConnection&) = delete;
  ControlConnection& operator=(const ControlConnection&) = delete;

  Status start();
  // Queues what the socket does not take at once; never blocks. After the end it does nothing: the
  // end has been, or will be, reported by on_end.
  void send(ControlFrameType type, ByteView body);
  // Whether the socket has taken everything, or never will.
  bool all_sent();
  // Nothing is sent any more; what came before goes out first. Whether the peer can read the end
  // now, or the connection is over: if not, call again.
  bool end_sending();
  // Whether the connection has ended: the peer's end was read, or close() was called.
  bool over() const { return ended_.load(); }
  // After this no callback is running (unless this is one) and none will. Idempotent.
  void close();

 private:
  void on_events(std::uint32_t events);
  void on_readable();
  void end(const Status& reason);
  // Sends from the queue; returns what went wrong, if anything.
  Status flush_locked() FW_REQUIRES(mutex_);

  core::EventLoop& loop_;
  const OnFrame on_frame_;
  const OnEnd on_end_;
  FrameSplitter splitter_;  // loop's thread only

  core::Mutex mutex_{core::LockRank::kDeviceTables};
  std::unique_ptr<core::ByteStream> stream_ FW_GUARDED_BY(mutex_);  // null once closed
  std::vector<std::byte> outgoing_ FW_GUARDED_BY(mutex_);
  bool sending_ended_ FW_GUARDED_BY(mutex_) = false;
  std::atomic<bool> ended_{false};
};

}  // namespace farwrite::device
