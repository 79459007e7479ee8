// OrderedReads: reads of a server's memory that take one round trip together, where the server's
// process takes the bytes in the order of the reads (Channel::reads_in_order()).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/completion.h"
#include "core/deadline.h"
#include "device/channel.h"
#include "farwrite/bytes.h"
#include "farwrite/status.h"

namespace farwrite::box {

// Thread-compatible. All calls of add() come before wait().
class OrderedReads {
 public:
  explicit OrderedReads(Channel& channel) : channel_(channel) {}

  // Words of the region. They have arrived once wait() returns ok, and live as long as this.
  const std::uint64_t* add(const RemoteRegion& region, std::uint64_t at, std::size_t count);
  // Bytes into the caller's memory, which `owner` keeps; see wait().
  void add(const RemoteRegion& region, std::uint64_t at, MutableByteView out,
           std::shared_ptr<const void> owner);
  // kDeadlineExceeded if the server does not answer in time; then bytes may still arrive in memory
  // that has an owner. What has none is waited for without a limit.
  Status wait(const core::Deadline& deadline);

 private:
  struct PostedRead {
    Completion completion;
    std::shared_ptr<const void> memory;  // null: the caller's, without an owner
    RemoteRegion region;                 // its end would let the bytes change
  };

  Channel& channel_;
  std::vector<PostedRead> posted_;
};

}  // namespace farwrite::box
