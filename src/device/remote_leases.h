// RemoteLeases: the leases that this side holds on memory of one peer.
#pragma once

#include <cstdint>
#include <vector>

#include "core/mutex.h"
#include "device/channel_records.h"

namespace farwrite::device {

// The peer is notified of every lease that is dropped here, and then, once, that no more are held.
// It uses the memory again from then on. Thread-safe.
//
// One thread at a time tells the peer of dropped leases; what others drop meanwhile goes with the
// next record, so a burst costs few records and a full ring holds one of them back and no more.
class RemoteLeases {
 public:
  // One more is held. False once end() or end_all() has been said: the memory may hold something
  // else by now.
  bool hold();
  // One is held no more. True if the caller must take() until nothing is left.
  bool drop(std::uint64_t lease);
  // The leases of the next record to the peer; none ends the caller's turn.
  ReturnRecord take_dropped();

  // From now on, none is held. False while some are, and when this was said before.
  bool end();
  // The same, whatever is held: the peer does not wait for it any more.
  void end_all();

  std::uint64_t held() const;

 private:
  mutable core::Mutex mutex_{core::LockRank::kDeviceTables};
  std::uint64_t held_ FW_GUARDED_BY(mutex_) = 0;
  bool ended_ FW_GUARDED_BY(mutex_) = false;
  std::vector<std::uint64_t> dropped_ FW_GUARDED_BY(mutex_);  // that the peer has not been told of
  bool telling_ FW_GUARDED_BY(mutex_) = false;                // a thread does so
};

}  // namespace farwrite::device
