// LeaseReturns: gives leases on the peer's memory back, in records of the return lane.
//
// Where the lane takes none any more, each lease goes back in a frame of the control connection.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "core/completion.h"
#include "device/channel_records.h"
#include "device/control_messages.h"
#include "device/remote_leases.h"
#include "fabric/operation.h"

namespace farwrite::device {

// Thread-safe, without a mutex: one thread at a time has the turn that RemoteLeases gives.
class LeaseReturns {
 public:
  // Posts a record to the return lane, or fails; and sends a RELEASE.
  using Post = std::function<Completion(const fabric::Operation& record)>;
  using Release = std::function<void(const ReleaseMessage&)>;

  // `leases` outlives it.
  LeaseReturns(RemoteLeases& leases, Post post, Release release)
      : leases_(leases), post_(std::move(post)), release_(std::move(release)) {}

  // Before the first lease. `self` is this, kept by the channel's reference count.
  void start(std::weak_ptr<LeaseReturns> self) { self_ = std::move(self); }
  // Tells the peer of dropped leases until none is left; in the turn that RemoteLeases::drop() gave
  // the caller.
  void tell();

 private:
  Completion post(const ReturnRecord& returns) const;
  void release_each(const ReturnRecord& returns) const;

  RemoteLeases& leases_;
  const Post post_;
  const Release release_;
  std::weak_ptr<LeaseReturns> self_;
};

}  // namespace farwrite::device
