#include "memory/allocation_sites.h"

#include <algorithm>
#include <functional>

#include "base/options.h"
#include "core/mutex.h"
#include "stats/stats.h"
#include "tsl/profiler/lib/scoped_memory_debug_annotation.h"

namespace farwrite::plugin {
namespace {

// Tracing ends after this many steps, or allocations in a process that sends nothing, without a new
// site.
constexpr std::uint64_t kQuietSteps = 16;
constexpr std::uint64_t kQuietAllocations = 1 << 16;
// Blocks that one execution of an operation tells apart.
constexpr std::uint32_t kNumbers = 8;
constexpr std::size_t kMaxSites = 1 << 14;
constexpr std::size_t kMaxProbes = 64;
constexpr AllocationSites::Site kFirst = 2;  // sites of operations begin here

// A block's address and its site in one word, so that no lock is needed: blocks start at multiples
// of 64, and user space has 47 address bits. Eight words, a cache line, take the blocks that hash
// there; of nine live ones the one that came first is forgotten.
constexpr std::uint32_t kSiteBits = 16;
constexpr std::size_t kWays = 8;
constexpr std::size_t kSets = 1 << 12;
static_assert(kMaxSites + kFirst < (1U << kSiteBits));

struct alignas(64) Set {
  std::array<std::atomic<std::uint64_t>, kWays> words{};
};

std::uint64_t address_bits(const void* block) {
  return (reinterpret_cast<std::uintptr_t>(block) >> 6) << kSiteBits;
}

constexpr std::uint64_t kAddressMask = ~((std::uint64_t{1} << kSiteBits) - 1);

std::size_t set_of(std::uint64_t address) {
  return static_cast<std::size_t>((address * 0x9E3779B97F4A7C15U) >> 52) % kSets;
}

// Which block of which execution this thread allocated last.
struct Execution {
  const char* op = nullptr;
  std::int64_t step = 0;
  std::uint32_t number = 0;
};
thread_local Execution last_execution;

}  // namespace

struct AllocationSites::AllocationSite {
  std::atomic<std::uint64_t> hash{0};
  std::atomic<const std::string*> op{nullptr};
  std::uint32_t number = 0;  // set before `op`
  std::atomic<bool> sent{false};
};

struct AllocationSites::Tables {
  std::array<AllocationSite, kMaxSites> sites;
  std::array<Set, kSets> blocks;
};

AllocationSites::AllocationSites()
    : for_ever_(options().tracing == "always"), tables_(new Tables) {}

AllocationSites& AllocationSites::of_process() {
  static AllocationSites* const only = new AllocationSites;
  return *only;
}

AllocationSites::Site AllocationSites::identify() {
  const tsl::profiler::MemoryDebugAnnotation& now =
      tsl::profiler::ScopedMemoryDebugAnnotation::CurrentAnnotation();
  const std::string_view op(now.pending_op_name.data(), now.pending_op_name.size());
  if (op.empty()) return kNoOperation;
  Execution& execution = last_execution;
  if (execution.op == op.data() && execution.step == now.pending_step_id) {
    execution.number = std::min(execution.number + 1, kNumbers);
  } else {
    execution = {op.data(), now.pending_step_id, 1};
  }
  return find(op, execution.number);
}

// kUnknown if it is new and need not be told from others, or there are too many.
AllocationSites::Site AllocationSites::find(std::string_view op, std::uint32_t number) {
  std::uint64_t hash = std::hash<std::string_view>()(op) + number * 0x9E3779B97F4A7C15U;
  if (hash == 0) hash = 1;
  for (std::size_t probe = 0; probe < kMaxProbes; ++probe) {
    const std::size_t place = (hash + probe) % kMaxSites;
    AllocationSite& known = tables_->sites[place];
    std::uint64_t there = known.hash.load(std::memory_order_acquire);
    if (there == 0) {
      if (!tracing()) return kUnknown;
      if (known.hash.compare_exchange_strong(there, hash)) {
        known.number = number;
        known.op.store(new std::string(op), std::memory_order_release);
        return static_cast<Site>(place) + kFirst;
      }
    }
    if (there == hash) return static_cast<Site>(place) + kFirst;
  }
  return kUnknown;
}

bool AllocationSites::sent(Site site) const {
  return site >= kFirst && tables_->sites[site - kFirst].sent.load(std::memory_order_relaxed);
}

void AllocationSites::record(const void* block, Site site) {
  if (block == nullptr || reinterpret_cast<std::uintptr_t>(block) % 64 != 0) return;
  count(stats().traced_allocations);
  if (since_news_.fetch_add(1, std::memory_order_relaxed) > kQuietAllocations && !for_ever_) {
    state_.fetch_and(~kTracing);
    return;
  }
  const std::uint64_t address = address_bits(block);
  auto& words = tables_->blocks[set_of(address)].words;
  // A free word, or the one that this address has from an earlier block.
  for (std::atomic<std::uint64_t>& word : words) {
    std::uint64_t there = word.load(std::memory_order_relaxed);
    if ((there == 0 || (there & kAddressMask) == address) &&
        word.compare_exchange_strong(there, address | site)) {
      return;
    }
  }
  for (std::size_t way = 1; way < kWays; ++way) words[way - 1].store(words[way].load());
  words[kWays - 1].store(address | site);
}

void AllocationSites::drop(const void* block) {
  const std::uint64_t address = address_bits(block);
  for (std::atomic<std::uint64_t>& word : tables_->blocks[set_of(address)].words) {
    std::uint64_t there = word.load(std::memory_order_relaxed);
    if (there != 0 && (there & kAddressMask) == address) word.compare_exchange_strong(there, 0);
  }
}

AllocationSites::Site AllocationSites::site_of(const void* block) const {
  if (!tracing()) return kUnknown;  // what is written there is old
  const std::uint64_t address = address_bits(block);
  for (const std::atomic<std::uint64_t>& word : tables_->blocks[set_of(address)].words) {
    const std::uint64_t there = word.load(std::memory_order_relaxed);
    if (there != 0 && (there & kAddressMask) == address) {
      return static_cast<Site>(there & ~kAddressMask);
    }
  }
  return kUnknown;
}

bool AllocationSites::mark_sent(Site site) {
  if (site < kFirst || tables_->sites[site - kFirst].sent.exchange(true)) return false;
  sent_sites_.fetch_add(1, std::memory_order_relaxed);
  state_.fetch_or(kSomeSent);
  return true;
}

std::string AllocationSites::describe(Site site) const {
  if (site == kNoOperation) return "no operation";
  if (site == kUnknown) return "an operation that was not traced";
  const AllocationSite& known = tables_->sites[site - kFirst];
  const std::string* const op = known.op.load(std::memory_order_acquire);
  if (op == nullptr) return "an operation";  // another thread is about to write its name
  return *op + " (allocation " + std::to_string(known.number) + ")";
}

void AllocationSites::trace() {
  const core::Lock lock(mutex_);
  news_ = steps_;
  since_news_.store(0, std::memory_order_relaxed);
  if (tracing()) return;
  // What was freed meanwhile is still there.
  for (Set& set : tables_->blocks) {
    for (std::atomic<std::uint64_t>& word : set.words) word.store(0, std::memory_order_relaxed);
  }
  state_.fetch_or(kTracing);
}

void AllocationSites::trace_new_graph() {
  graphs_.fetch_add(1, std::memory_order_relaxed);
  trace();
}

std::uint64_t AllocationSites::saw_step(std::int64_t step) {
  const core::Lock lock(mutex_);
  if (std::find(recent_.begin(), recent_.end(), step) != recent_.end()) return steps_;
  recent_[steps_++ % recent_.size()] = step;
  if (steps_ - news_ > kQuietSteps && !for_ever_) state_.fetch_and(~kTracing);
  return steps_;
}

}  // namespace farwrite::plugin
