// StreamLink: what the streams of one channel share: the channel, the counters, and a thread for
// what must not be done in a callback.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <thread>

#include "core/mutex.h"
#include "device/channel.h"
#include "device/device.h"
#include "stream/stream.h"
#include "stream/stream_frame.h"

namespace farwrite::stream {

// Thread-safe.
class StreamLink {
 public:
  StreamLink(Device device, Channel channel)
      : device_(std::move(device)), channel_(std::move(channel)) {}
  ~StreamLink();
  StreamLink(const StreamLink&) = delete;
  StreamLink& operator=(const StreamLink&) = delete;

  Channel& channel() { return channel_; }
  Device& device() { return device_; }
  std::uint32_t lane(std::uint64_t number) const {
    return static_cast<std::uint32_t>(number % channel_.peer().lanes);
  }

  // Sends a frame without a payload, of its stream's lane. A failure shows at the channel's end.
  void tell(const StreamFrame& frame);
  // The same for a frame with a reason.
  void tell(const StreamFrame& frame, const Status& reason);

  // Memory of `bytes`: the device's if there is some and `registered`, else the heap's. It goes
  // with the owner, and `freed` runs then; at once with kResourceExhausted, if there is none.
  struct StreamBuffer {
    std::byte* data = nullptr;
    std::shared_ptr<const void> owner;
  };
  Result<StreamBuffer> buffer(std::uint64_t bytes, bool registered,
                              std::function<void()> freed = {});

  // Starts the thread for reach(), if the peer's memory is mapped. Once, before anything else, so
  // that a process without another thread learns it before a stream has begun.
  Status start();
  // Makes the first view of lent memory in the link's thread, then calls `reached` there: when the
  // peer has answered, the channel has ended, or the link goes, which `reached` must not keep.
  void reach(const RemoteRegion& lent, std::function<void(const Status&)> reached);

  struct StreamCounters {
    std::atomic<std::uint64_t> messages = 0;
    std::atomic<std::uint64_t> message_bytes = 0;
    std::atomic<std::uint64_t> lent = 0;
    std::atomic<std::uint64_t> lent_bytes = 0;
    std::atomic<std::uint64_t> staged_bytes = 0;
    std::atomic<std::uint64_t> aliased_bytes = 0;
    std::atomic<std::uint64_t> read_bytes = 0;
    std::atomic<std::uint64_t> held_back_bytes = 0;
    std::atomic<std::uint64_t> credits = 0;
    std::atomic<std::uint64_t> waits = 0;
  };
  StreamCounters& counters() { return counters_; }

 private:
  // Outlives the link if the link goes in one of the jobs.
  struct Jobs {
    core::Mutex mutex{core::LockRank::kStream};
    core::CondVar changed;
    std::deque<std::function<void()>> queue FW_GUARDED_BY(mutex);
    bool stopping FW_GUARDED_BY(mutex) = false;

    void work();
    bool is_stopping();
  };

  Device device_;
  Channel channel_;
  StreamCounters counters_;

  const std::shared_ptr<Jobs> jobs_ = std::make_shared<Jobs>();
  std::thread worker_;  // fixed once started
};

}  // namespace farwrite::stream
