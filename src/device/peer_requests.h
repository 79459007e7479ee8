// PeerRequests: answers what the peer of a channel asks for: regions by name or by descriptor.
//
// An answer about export memory brings a lease on it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "device/channel.h"
#include "device/control_messages.h"
#include "device/landing_memory.h"
#include "device/lease_table.h"
#include "device/name_table.h"
#include "device/parked_lookups.h"
#include "farwrite/status.h"

namespace farwrite::device {

class DeviceState;

// Only on the control loop's thread, so without a mutex; but names() from any thread.
class PeerRequests {
 public:
  using Reply = std::function<void(const ReplyMessage&)>;

  // All of them outlive it; `peer` and `peer_name` are fixed before the first request. `landing` is
  // what this peer may write.
  PeerRequests(const DeviceState& device, const PeerInfo& peer, const std::string& peer_name,
               const LandingMemory& landing, LeaseTable& leases, Reply reply)
      : device_(device),
        peer_(peer),
        peer_name_(peer_name),
        landing_(landing),
        leases_(leases),
        reply_(std::move(reply)) {}

  // What is published to this peer alone.
  NameTable& names() { return names_; }

  // A lookup that finds nothing is parked, if it has time.
  void lookup(const LookupMessage& message);
  void open(const OpenMessage& message);
  // Names changed: parked lookups may find theirs.
  void answer_parked();
  // Answers those that have waited long enough.
  void expire_parked();
  std::vector<std::chrono::nanoseconds> take_last_stretches() {
    return parked_.take_last_stretches();
  }

 private:
  bool try_answer(const LookupMessage& message);
  void reply_with(std::uint64_t request, const PublishedRegion& published);
  void refuse(std::uint64_t request, const Status& status);

  const DeviceState& device_;
  const PeerInfo& peer_;
  const std::string& peer_name_;
  const LandingMemory& landing_;
  LeaseTable& leases_;
  const Reply reply_;
  NameTable names_;
  ParkedLookups parked_;
};

}  // namespace farwrite::device
