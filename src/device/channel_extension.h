// ChannelExtension: what the transfer layer keeps with a channel.
#pragma once

namespace farwrite::device {

// It holds nothing of the channel, which holds it.
class ChannelExtension {
 public:
  virtual ~ChannelExtension() = default;
  // This side begins to close the channel, and what has been put off can be sent for the last time.
  // On any thread, and maybe more than once.
  virtual void channel_closes() = 0;
  // Whether it needs the channel's notifications.
  virtual bool in_use() = 0;
};

}  // namespace farwrite::device
