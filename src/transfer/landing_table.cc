#include "transfer/landing_table.h"

#include <algorithm>
#include <utility>

#include "transfer/records.h"

namespace farwrite::transfer {
namespace {

// One in use by the last step and one for the next. A loop, or a variable that keeps what it got,
// may need more.
constexpr int kFirstSlots = 2;
constexpr std::size_t kMostOnDemand = 4;  // of an edge
// When memory is short, edges that nothing went over for this long give theirs back.
constexpr std::chrono::nanoseconds kIdle = std::chrono::seconds(10);
// With its head, no sum overflows.
constexpr std::uint64_t kMaxBytesOnDemand = std::uint64_t{1} << 40;

}  // namespace

LandingTable::SlotRef LandingTable::add(std::string_view edge, std::uint32_t lane,
                                        MemoryRegion memory, std::uint64_t capacity,
                                        LandingTotals& totals) {
  if (slots_.size() > kMaxSlotNumber) return nullptr;
  while (slots_.contains(next_number_)) next_number_ = (next_number_ + 1) & kMaxSlotNumber;
  EdgeSlots& known = edges_.try_emplace(std::string(edge)).first->second;
  auto slot = std::make_shared<LandingSlot>(next_number_, edge, lane, std::move(memory), capacity,
                                            known.counts, totals);
  next_number_ = (next_number_ + 1) & kMaxSlotNumber;
  known.slots.push_back(slot);
  slots_.emplace(slot->slot.number(), slot);
  return slot;
}

LandingTable::SlotRef LandingTable::find(std::uint32_t number) const {
  const auto found = slots_.find(number);
  return found == slots_.end() ? nullptr : found->second;
}

std::vector<LandingTable::SlotRef> LandingTable::slots_of(std::string_view edge) const {
  const auto found = edges_.find(edge);
  return found == edges_.end() ? std::vector<SlotRef>() : found->second.slots;
}

void LandingTable::remove(const SlotRef& slot) {
  if (!std::exchange(slot->listed, false)) return;
  slots_.erase(slot->slot.number());
  const auto edge = edges_.find(slot->edge);
  std::erase(edge->second.slots, slot);
  if (edge->second.slots.empty() && !edge->second.opening) edges_.erase(edge);
}

std::vector<LandingTable::SlotRef> LandingTable::remove_edge(std::string_view edge) {
  const auto found = edges_.find(edge);
  if (found == edges_.end()) return {};
  std::vector<SlotRef> slots = std::move(found->second.slots);
  edges_.erase(found);
  for (const SlotRef& slot : slots) {
    slot->listed = false;
    slots_.erase(slot->slot.number());
  }
  return slots;
}

std::vector<LandingTable::SlotRef> LandingTable::clear() {
  std::vector<SlotRef> slots;
  for (auto& [number, slot] : slots_) {
    slot->listed = false;
    slots.push_back(std::move(slot));
  }
  slots_.clear();
  edges_.clear();
  return slots;
}

int LandingTable::wanted(std::string_view edge, std::uint64_t bytes, Time now) {
  if (bytes > kMaxBytesOnDemand || now < not_before_) return 0;
  std::size_t fit = 0;
  const auto known = edges_.find(edge);
  if (known != edges_.end()) {
    if (known->second.opening) return 0;
    for (const SlotRef& slot : known->second.slots) {
      if (slot->retired || slot->held_back || slot->slot.capacity() < bytes) continue;
      if (!slot->used) return 0;  // the peer may not even know of it yet
      ++fit;
    }
  }
  if (fit >= kMostOnDemand) return 0;
  EdgeSlots& opening = edges_.try_emplace(std::string(edge)).first->second;
  opening.on_demand = opening.opening = true;
  return fit == 0 ? kFirstSlots : 1;
}

void LandingTable::opened(std::string_view edge, Time now) {
  const auto found = edges_.find(edge);
  if (found == edges_.end()) return;
  found->second.opening = false;
  found->second.opened = now;
  if (found->second.slots.empty()) edges_.erase(found);
}

void LandingTable::retire(EdgeSlots& edge, std::uint64_t below,
                          std::vector<std::uint32_t>& retired) {
  for (const SlotRef& slot : edge.slots) {
    if (slot->retired || slot->slot.capacity() >= below) continue;
    slot->retired = true;
    retired.push_back(slot->slot.number());
  }
}

std::vector<std::uint32_t> LandingTable::retire_smaller(std::string_view edge,
                                                        std::uint64_t bytes) {
  std::vector<std::uint32_t> retired;
  const auto found = edges_.find(edge);
  if (found != edges_.end()) retire(found->second, bytes, retired);
  return retired;
}

std::vector<std::uint32_t> LandingTable::retire_idle(Time now) {
  std::vector<std::uint32_t> retired;
  for (auto& [key, edge] : edges_) {
    Time used = edge.opened;
    for (const SlotRef& slot : edge.slots) used = std::max(used, slot->last_used);
    if (edge.on_demand && now - used >= kIdle) retire(edge, UINT64_MAX, retired);
  }
  return retired;
}

}  // namespace farwrite::transfer
