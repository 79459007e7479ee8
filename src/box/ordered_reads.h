// OrderedReads: reads of a server's memory that are posted together and waited for together. Where
// Channel::reads_in_order() they take one round trip, and the bytes are taken in their order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "box/client_state.h"
#include "core/completion.h"
#include "core/deadline.h"
#include "core/region.h"
#include "farwrite/bytes.h"
#include "farwrite/status.h"

namespace farwrite::box {

// Thread-compatible. All calls of add() come before wait(), which is called once.
class OrderedReads {
 public:
  explicit OrderedReads(ClientState& client) : client_(client) {}

  // Words of the region. They have arrived once wait() returns ok, and live as long as this.
  const std::uint64_t* add(const RemoteRegion& region, std::uint64_t at, std::size_t count);
  // Bytes into the caller's memory, which `owner` keeps. Without an owner they arrive in memory of
  // this and are copied, since a server that was stopped may send them when `out` has gone.
  void add(const RemoteRegion& region, std::uint64_t at, MutableByteView out,
           std::shared_ptr<const void> owner);
  // Posts them. kDeadlineExceeded if the server does not answer in time; then bytes may still
  // arrive in memory that has an owner.
  Status wait(const core::Deadline& deadline);

 private:
  // What bytes need that may still move when this has gone: the region's end would let them change.
  struct PlannedRead {
    RemoteRegion region;
    std::uint64_t at;
    MutableByteView out;  // where the bytes arrive
    std::shared_ptr<const void> owner;
  };
  struct WaitingCopy {
    MutableByteView out;
    std::shared_ptr<std::byte[]> arrived;
  };

  Status outcome_of(const Completion& read, const core::Deadline& deadline) const;

  ClientState& client_;
  std::vector<std::shared_ptr<const PlannedRead>> reads_;
  std::vector<WaitingCopy> copies_;
};

}  // namespace farwrite::box
