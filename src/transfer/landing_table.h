// LandingTable: the receiver's half of slots: all that one peer may write, by number and by edge.
//
// The slots of an edge are either given by the user, as many as the edge shall have, or opened on
// demand: two when tensors of an edge prove to repeat, more while all of them are in use, larger
// ones when the tensors grow, none while memory is short.
//
// Thread-compatible: no channel, no thread, no lock.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/region.h"
#include "transfer/slot.h"

namespace farwrite::transfer {

// Slots of this process now, for stats. Thread-safe.
struct LandingTotals {
  std::atomic<std::int64_t> slots{0}, held{0}, bytes{0};  // held: by tensors
};

// A slot and its memory. The tensor in it may outlive the edge, the channel and the peer.
struct LandingSlot {
  LandingSlot(std::uint32_t number, std::string_view edge, std::uint32_t lane, MemoryRegion memory,
              std::uint64_t capacity, std::shared_ptr<SlotCounts> edge_counts,
              LandingTotals& totals)
      : edge(edge),
        lane(lane),
        region(std::move(memory)),
        counts(std::move(edge_counts)),
        slot(number, region.data(), capacity, *counts),
        totals(totals) {
    totals.slots.fetch_add(1);
    totals.bytes.fetch_add(static_cast<std::int64_t>(capacity));
  }
  ~LandingSlot() {
    totals.slots.fetch_sub(1);
    totals.bytes.fetch_sub(static_cast<std::int64_t>(slot.capacity()));
  }
  LandingSlot(const LandingSlot&) = delete;
  LandingSlot& operator=(const LandingSlot&) = delete;

  const std::string edge;    // its key
  const std::uint32_t lane;  // of the edge's records
  const MemoryRegion region;
  const std::shared_ptr<SlotCounts> counts;  // the edge's
  Slot slot;
  bool used = false;       // something has landed in it
  bool retired = false;    // not granted again
  bool listed = true;      // in the table
  bool stopped = false;    // its sender has closed
  bool held_back = false;  // free, and a forked child may read what was in it
  std::chrono::steady_clock::time_point last_used{};
  LandingTotals& totals;
  std::uint64_t handed_out = 0;  // ForkedReaders::stamp() of the last landing
};

class LandingTable {
 public:
  using SlotRef = std::shared_ptr<LandingSlot>;
  using Time = std::chrono::steady_clock::time_point;

  // Adds a slot to an edge and does not grant it. Null: the channel has no slot numbers left. A
  // number comes again only after all others, so a late push into a removed slot finds none.
  SlotRef add(std::string_view edge, std::uint32_t lane, MemoryRegion memory,
              std::uint64_t capacity, LandingTotals& totals);
  // Null: no such slot.
  SlotRef find(std::uint32_t number) const;
  std::vector<SlotRef> slots_of(std::string_view edge) const;

  void remove(const SlotRef& slot);
  // The slots that the edge had.
  std::vector<SlotRef> remove_edge(std::string_view edge);
  std::vector<SlotRef> clear();

  // --- Slots on demand.

  // A tensor of so many bytes found no slot, and more will come: how many to open. If not 0, open()
  // must follow before there is another answer for this edge.
  int wanted(std::string_view edge, std::uint64_t bytes, Time now);
  void opened(std::string_view edge, Time now);
  // Memory was short: for a while none is wanted.
  void memory_is_short(Time now) { not_before_ = now + kPause; }
  // Retires the slots that are too small for what the edge brings now. The peer must give them up.
  std::vector<std::uint32_t> retire_smaller(std::string_view edge, std::uint64_t bytes);
  // Retires the slots of edges on demand that nothing has used for long.
  std::vector<std::uint32_t> retire_idle(Time now);

 private:
  static constexpr std::chrono::nanoseconds kPause = std::chrono::seconds(1);

  struct EdgeSlots {
    std::vector<SlotRef> slots;
    std::shared_ptr<SlotCounts> counts = std::make_shared<SlotCounts>();
    bool on_demand = false;
    bool opening = false;
    Time opened{};
  };

  static void retire(EdgeSlots& edge, std::uint64_t below, std::vector<std::uint32_t>& retired);

  std::unordered_map<std::uint32_t, SlotRef> slots_;
  std::map<std::string, EdgeSlots, std::less<>> edges_;
  std::uint32_t next_number_ = 0;
  Time not_before_{};
};

}  // namespace farwrite::transfer
