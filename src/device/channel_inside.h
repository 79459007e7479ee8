// ChannelState::Inside: this thread is in a call, or runs a callback, of a channel.
#pragma once

#include <utility>

#include "device/channel_state.h"

namespace farwrite::device {

// Closing waits for all such calls to end, so a callback that closes its own channel would wait for
// itself; close() asks here first.
class ChannelState::Inside {
 public:
  explicit Inside(const ChannelState* channel) : outer_(std::exchange(innermost, this)) {
    channel_ = channel;
  }
  ~Inside() { innermost = outer_; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

  static bool is(const ChannelState* channel) {
    for (const Inside* entry = innermost; entry != nullptr; entry = entry->outer_) {
      if (entry->channel_ == channel) return true;
    }
    return false;
  }

 private:
  static thread_local const Inside* innermost;

  const ChannelState* channel_ = nullptr;
  const Inside* const outer_;
};

}  // namespace farwrite::device
