// FarwritePath: Farwrite's public API behind the five calls that the measuring loops use. RawPath
// has the same calls.
#pragma once

#include <chrono>
#include <cstdint>

#include "peer.h"
#include "phase.h"
#include "raw_limits.h"

namespace farwrite::bench {

// The tag of a notification is the slot. Any thread may take a notification of any lane; the
// returned Arrival has its lane.
class FarwritePath {
 public:
  FarwritePath(Peer& peer, const Phase& phase, const SlotMap& map)
      : peer_(peer),
        phase_(phase),
        map_(map),
        sender_(peer.options().role == Role::kSender),
        channel_(peer.channel()) {}

  Status put(std::uint32_t lane, std::uint32_t slot, const std::byte* source) {
    const RemoteRegion& target = sender_ ? peer_.remote_pool() : peer_.remote_echo();
    const std::uint64_t offset = sender_ ? map_.offset(slot) : 0;
    // The loops write into the source again at once, so the transfer must be local_complete.
    return channel_.write_with_notify({source, phase_.size}, target, offset, slot, lane)
        .wait(kTimeout);
  }

  Status signal(std::uint32_t lane, std::uint32_t slot) {
    return channel_.notify(slot, lane).wait(kTimeout);
  }

  Result<Arrival> take(std::uint32_t /*lane*/) {
    auto notification = channel_.wait_notification(kTimeout);
    if (!notification.ok()) return notification.status();
    if (notification->tag >= map_.slots || notification->lane >= phase_.lanes) {
      return Status(StatusCode::kInternal,
                    "bench p2p: a notification has an unknown slot or lane; report this");
    }
    return Arrival{.lane = notification->lane, .slot = notification->tag};
  }

  Status fetch(std::uint32_t lane, std::uint32_t slot, std::byte* destination) {
    return channel_.read({destination, phase_.size}, peer_.remote_pool(), map_.offset(slot), lane)
        .wait(kTimeout);
  }

  Result<const std::byte*> view(std::uint32_t slot) {
    if (phase_.op == Op::kAlias) {
      // The view stays valid because remote_pool() holds the lease for the whole run.
      auto alias = channel_.alias(peer_.remote_pool(), map_.offset(slot), phase_.size);
      if (!alias.ok()) return alias.status();
      return alias->data();
    }
    return static_cast<const std::byte*>(sender_ ? peer_.echo() : peer_.pool() + map_.offset(slot));
  }

 private:
  static constexpr std::chrono::seconds kTimeout{30};

  Peer& peer_;
  const Phase& phase_;
  const SlotMap& map_;
  const bool sender_;
  Channel& channel_;
};

}  // namespace farwrite::bench
