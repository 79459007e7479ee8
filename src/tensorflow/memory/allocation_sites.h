// AllocationSites: which operations allocate the tensors that are sent (policy `traced`, after the
// paper "RPC Considered Harmful", section 3.4).
//
// A site is an operation's name and the how manieth large block of one execution it is. TensorFlow
// annotates a thread with the operation that allocates on it. While tracing is on, the address of
// every large block outside registered memory leads to its site; the latest wins, so it is the node
// that allocated the buffer, not one that passed it on. Once a tensor in such a block is sent, its
// site counts as sent, and the allocator puts that site's blocks into registered memory.
//
// Tracing begins with the first server, ends after some steps without a new site, and begins anew
// with a new graph and when a tensor is sent whose block is not known. While it is off and nothing
// counts as sent, an allocation costs one atomic load.
//
// Two nodes of one name in different graphs are one site, and so are all executions of a node in a
// loop beyond the eighth block of a step: then more is allocated in registered memory than is sent.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "core/mutex.h"

namespace farwrite::plugin {

// Thread-safe.
class AllocationSites {
 public:
  using Site = std::uint32_t;
  static constexpr Site kUnknown = 0;      // allocated while nothing was traced
  static constexpr Site kNoOperation = 1;  // by a thread that runs no operation

  static AllocationSites& of_process();

  // For the allocator. The site of the large block that this thread is about to allocate; kUnknown
  // where nothing needs it.
  Site current() { return state_.load(std::memory_order_relaxed) == 0 ? kUnknown : identify(); }
  // Whether tensors of this site are sent, so that it takes registered memory.
  bool sent(Site site) const;
  // A block outside registered memory was allocated by this site, or is being freed.
  void remember(const void* block, Site site) {
    if (site != kUnknown && tracing()) record(block, site);
  }
  void forget(const void* block) {
    if (tracing()) drop(block);
  }

  // For the sending half. Where the block at this address was allocated.
  Site site_of(const void* block) const;
  // A tensor of this site is sent. Whether that is new.
  bool mark_sent(Site site);
  // "dense/MatMul (allocation 1)"
  std::string describe(Site site) const;

  bool tracing() const { return (state_.load(std::memory_order_relaxed) & kTracing) != 0; }
  // Turns tracing on, or keeps it on for longer.
  void trace();
  // The same for a new graph that sends something; what was given up on is tried again. See
  // graphs().
  void trace_new_graph();
  std::uint64_t graphs() const { return graphs_.load(std::memory_order_relaxed); }
  // A tensor of this step is sent: turns tracing off after enough steps without a new site. How
  // many steps there were so far; steps run beside each other.
  std::uint64_t saw_step(std::int64_t step);

  std::uint64_t sent_sites() const { return sent_sites_.load(std::memory_order_relaxed); }

 private:
  struct AllocationSite;
  struct Tables;
  static constexpr std::uint32_t kTracing = 1;
  static constexpr std::uint32_t kSomeSent = 2;

  AllocationSites();
  Site identify();
  Site find(std::string_view op, std::uint32_t number);
  void record(const void* block, Site site);
  void drop(const void* block);

  std::atomic<std::uint32_t> state_{0};
  std::atomic<std::uint64_t> sent_sites_{0};
  std::atomic<std::uint64_t> graphs_{0};
  std::atomic<std::uint64_t> since_news_{0};  // allocations
  const bool for_ever_;                       // FARWRITE_TF_TRACING=always
  Tables* const tables_;
  core::Mutex mutex_{core::LockRank::kProgram};
  std::array<std::int64_t, 16> recent_ FW_GUARDED_BY(mutex_){};  // steps
  std::uint64_t steps_ FW_GUARDED_BY(mutex_) = 0;
  std::uint64_t news_ FW_GUARDED_BY(mutex_) = 0;  // at this number of steps
};

}  // namespace farwrite::plugin
