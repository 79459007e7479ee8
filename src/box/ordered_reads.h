// OrderedReads: reads of a server's memory that are posted together and waited for together. Where
// Channel::reads_in_order() they take one round trip, and the bytes are taken in their order.
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
  // Bytes into the caller's memory, which `owner` keeps. Without an owner they arrive in memory of
  // this and are copied, since a server that was stopped may send them when `out` has gone.
  void add(const RemoteRegion& region, std::uint64_t at, MutableByteView out,
           std::shared_ptr<const void> owner);
  // kDeadlineExceeded if the server does not answer in time; then bytes may still arrive in memory
  // that has an owner.
  Status wait(const core::Deadline& deadline);

 private:
  struct PostedRead {
    Completion completion;
    std::shared_ptr<const void> memory;  // where the bytes arrive, or its owner
  };
  struct WaitingCopy {
    MutableByteView out;
    std::shared_ptr<std::byte[]> arrived;
  };

  Channel& channel_;
  std::vector<PostedRead> posted_;
  std::vector<WaitingCopy> copies_;
};

}  // namespace farwrite::box
