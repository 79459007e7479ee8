// RegistrationCache: memory regions (MRs) of one protection domain, by address.
//
// Segments of arenas are registered once and stay until they go. Memory of the user's own is
// registered while something needs it: for one transfer, or for as long as it holds a Registration
// (Device::register_memory). An entry that nothing holds is deregistered at once and never kept for
// later: a registration holds pages, not addresses. Once the user has freed the memory, the address
// may belong to other pages, and a kept entry would let the adapter work on the old ones, unseen.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "core/fork_guard.h"
#include "fabric/verbs/verbs_library.h"
#include "farwrite/bytes.h"
#include "farwrite/device_types.h"
#include "farwrite/status.h"
#include "memory/segment.h"

namespace farwrite::fabric::verbs {

// A registered stretch of memory. Deregisters when the last holder lets go; not in a forked child,
// whose parent goes on using it.
class Registration {
 public:
  Registration(VerbsLibrary& library, ibv_mr* region, std::shared_ptr<const void> keeps);
  ~Registration();
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;

  std::uint32_t local_key() const { return region_->lkey; }
  std::uint32_t remote_key() const { return region_->rkey; }
  const std::byte* data() const { return static_cast<const std::byte*>(region_->addr); }
  std::uint64_t bytes() const { return region_->length; }

 private:
  VerbsLibrary& library_;
  ibv_mr* const region_;
  const std::shared_ptr<const void> keeps_;  // the protection domain's owner
  const core::ForkGuard fork_guard_;
};

using RegistrationStats = AdapterStats;

// Thread-safe. Lookups of segments take a shared lock only. Registering, which takes long, happens
// outside all locks: two threads that need the same memory at the same moment may both do it.
class RegistrationCache {
 public:
  // `keeps` holds the protection domain; every Registration holds it as well. `max_bytes` is the
  // device's max_mr_size. `iwarp`: there the destination of a read has to be writable by the peer.
  RegistrationCache(VerbsLibrary& library, ibv_pd* domain, std::string device,
                    std::uint64_t max_bytes, std::shared_ptr<const void> keeps, bool iwarp = false);
  // Registrations that something holds stay.
  ~RegistrationCache();
  RegistrationCache(const RegistrationCache&) = delete;
  RegistrationCache& operator=(const RegistrationCache&) = delete;

  // Registers a segment of an arena with `access` (IBV_ACCESS_*) for as long as it lives or until
  // remove_segment(). Again: gives the same, or one with both rights. A segment that is gone is
  // never found again, and deregistered with the next that is added or missed, or by
  // remove_segment(). Errors explain limits (ulimit -l, max_mr_size) and what to do.
  Result<std::shared_ptr<Registration>> add_segment(const std::shared_ptr<memory::Segment>& segment,
                                                    unsigned access);
  void remove_segment(const memory::Segment& segment);

  // For one transfer: the registration that covers all of `memory`, made on demand (whole pages) if
  // there is none. `writable`: the adapter writes there (the destination of a read). Hold it until
  // the work request is over.
  Result<std::shared_ptr<Registration>> find(ByteView memory, bool writable);
  // The same for a user who wants to pay once; not counted as a transfer.
  Result<std::shared_ptr<Registration>> acquire(ByteView memory, bool writable);
  // Null if nothing covers it now; registers nothing, counts nothing.
  std::shared_ptr<Registration> peek(ByteView memory, bool writable) const;

  RegistrationStats stats() const;

 private:
  class State;
  const std::shared_ptr<State> state_;
};

// A registration that was refused.
struct RegistrationRequest {
  ByteView memory;
  bool writable = false;
  std::uint64_t registered_bytes = 0;  // by this device already
  std::uint64_t max_bytes = 0;         // the adapter's max_mr_size, 0: unknown
  std::string device;                  // "mlx5_0"
};

// `error_number` is what ibv_reg_mr left in errno.
Status registration_error(const RegistrationRequest& request, int error_number);
// The memory is larger than max_bytes.
Status too_large(const RegistrationRequest& request);

}  // namespace farwrite::fabric::verbs
