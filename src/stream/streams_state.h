// StreamsState: the streams of one channel by number, and who gets what the channel brings.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>

#include "core/fork_guard.h"
#include "core/mutex.h"
#include "stream/stream.h"
#include "stream/stream_link.h"
#include "stream/stream_probe.h"
#include "stream/stream_state.h"

namespace farwrite::stream {

// Thread-safe.
class StreamsState : public std::enable_shared_from_this<StreamsState> {
 public:
  static Result<std::shared_ptr<StreamsState>> create(Device device, Channel channel,
                                                      const Options& options);
  ~StreamsState();
  StreamsState(const StreamsState&) = delete;
  StreamsState& operator=(const StreamsState&) = delete;

  Result<std::shared_ptr<StreamState>> open(std::uint64_t number);
  Status tune(std::chrono::nanoseconds time);
  bool poll();
  Result<int> descriptor() { return link_->channel().notification_descriptor(); }
  bool arm();
  void disarm() { link_->channel().disarm_notifications(); }
  Options options() const;
  Stats stats() const;
  // Others may take the channel. Harmless to repeat.
  void let_channel_go() {
    if (has_channel_.exchange(false)) link_->channel().release_notifications();
  }

 private:
  class EndOfChannel;

  static constexpr std::size_t kLeastToTidy = 64;

  StreamsState(Device device, Channel channel, const Options& options)
      : link_(std::make_shared<StreamLink>(std::move(device), std::move(channel))),
        options_(options) {}
  void take(Notification notification);
  void end(const Status& reason);
  // The peer does not keep to the rules: ends all streams, and tells it.
  void break_off(const Status& reason);

  const core::ForkGuard fork_guard_;
  const std::shared_ptr<StreamLink> link_;
  StreamProbe probe_{link_};

  std::atomic<bool> has_channel_{true};
  std::atomic<bool> polling_{false};
  std::atomic<bool> over_{false};  // ended_ is set

  mutable core::Mutex mutex_{core::LockRank::kStream};
  Options options_ FW_GUARDED_BY(mutex_);
  std::map<std::uint64_t, std::weak_ptr<StreamState>> streams_ FW_GUARDED_BY(mutex_);
  std::size_t tidy_at_ FW_GUARDED_BY(mutex_) = kLeastToTidy;
  Status ended_ FW_GUARDED_BY(mutex_);
};

}  // namespace farwrite::stream
