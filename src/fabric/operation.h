// What is posted to a lane, where its poll() delivers, and what poll() and arm() return.
#pragma once

#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "core/notification.h"
#include "farwrite/bytes.h"
#include "farwrite/channel_types.h"
#include "gpu/gpu.h"

namespace farwrite::fabric {

// How a link reaches one region of its peer. Keeps the mapping alive.
class RemoteWindow {
 public:
  RemoteWindow() = default;
  RemoteWindow(const RemoteWindow&) = delete;
  RemoteWindow& operator=(const RemoteWindow&) = delete;
  virtual ~RemoteWindow() = default;

  std::uint64_t length = 0;           // of the region, in bytes
  const std::byte* mapped = nullptr;  // its first byte, read-only; null where nothing is mapped
  const gpu::Gpu* gpu = nullptr;      // the GPU that has the memory; null: a host's memory
};

enum class OperationKind : std::uint8_t {
  kWrite,    // source -> window + offset; raises `tag` behind the bytes if `notify`
  kRead,     // window + offset -> destination
  kNotify,   // raises `tag`
  kMessage,  // delivers `source` with `tag`
  kFlush,    // done when every write of this link posted before, on any lane, is remote_visible
  kRecord,   // hands `source` with `tag` to the peer's device layer, as a kMessage is delivered
  kEnd,      // nothing of ours follows on this lane; what went before still arrives
};

// A record may be longer than the longest message by this much: it can carry one.
inline constexpr std::uint64_t kRecordHeadroom = 64;

// The device layer has checked bounds and access.
struct Operation {
  OperationKind kind = OperationKind::kWrite;
  bool notify = false;
  bool accepted = false;  // its poster was promised that it goes (fabric/outbox.h)
  std::uint32_t tag = 0;
  std::uint64_t offset = 0;
  ByteView head;  // of a write: lands at `offset`, and `source` right behind it; post() copies it
  ByteView source;
  MutableByteView destination;
  std::shared_ptr<RemoteWindow> window;
  // The GPU that has the window or the local memory, or one of them: the CPU must not touch it.
  // Only for fabrics with Capabilities::gpu_copies.
  const gpu::Gpu* gpu = nullptr;

  // What it moves, without a tag.
  std::uint64_t bytes() const {
    return kind == OperationKind::kRead ? destination.size : head.size + source.size;
  }
};

// Where Lane::poll() delivers. Called without a fabric lock held.
class EventSink {
 public:
  virtual ~EventSink() = default;
  // Whether it takes more. A fabric that has to keep reading whatever its user does hands nothing
  // over while this is false, keeps it, and lets its peer send no more than it can keep.
  virtual bool has_room() const { return true; }
  virtual void on_notification(Notification&& notification) = 0;
  // What the peer's device layer posted as a kRecord, in lane order with the notifications. Not for
  // users; a sink without a device layer has no use for it.
  virtual void on_record(Notification&& /*record*/) {}
};

// What a lane has received and its sink has not taken yet.
struct ReceivedNotification {
  Notification notification;
  bool is_record = false;

  void deliver(EventSink& sink) && {
    if (is_record) {
      sink.on_record(std::move(notification));
    } else {
      sink.on_notification(std::move(notification));
    }
  }
};

// What one poll of a lane did.
struct Progress {
  std::size_t delivered = 0;  // notifications and records handed to the sink
  bool unsent = false;        // something waits until the doorbell's descriptor takes more
  bool awaits = false;        // an answer is awaited, which rings the doorbell
  bool pending = false;       // work is left that no doorbell will announce: poll again soon
  bool drained = false;       // this poll has looked, and nothing is left to hand over
};

// What a thread needs that sleeps until the lane has news.
struct Doorbell {
  int fd = -1;            // readable when there is news; owned by the link; -1: nothing to wait for
  bool ready = false;     // there is news already: do not sleep
  bool holds = false;     // what found no room in the sink: news once it has some
  short events = POLLIN;  // and what else the link waits for, as poll(2) has it
};

}  // namespace farwrite::fabric
