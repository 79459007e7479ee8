#include "tensors/slot_credits.h"

#include <algorithm>
#include <utility>

namespace farwrite::plugin {
namespace {

// An honest receiver withdraws few slots before they are opened here.
constexpr std::size_t kMaxEarly = 65536;

}  // namespace

std::optional<Credit> SlotCredits::take(std::string_view edge, std::uint64_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = by_edge_.find(std::string(edge));
  if (found == by_edge_.end()) return std::nullopt;
  for (const std::uint32_t id : found->second) {
    Slot& slot = slots_.at(id);
    if (!slot.granted.has_value() || slot.capacity < bytes) continue;
    Credit credit{id, *slot.granted, slot.target};
    slot.granted.reset();
    return credit;
  }
  return std::nullopt;
}

bool SlotCredits::opened(std::string_view edge, std::uint32_t id, std::uint64_t generation,
                         std::uint64_t capacity, Target target) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (withdrawn_early_.erase(id) != 0 || cleared_) return false;
  Slot slot{std::string(edge), capacity, std::move(target), generation};
  by_edge_[slot.edge].push_back(id);
  slots_.insert_or_assign(id, std::move(slot));
  return true;
}

void SlotCredits::not_opened(std::uint32_t id) {
  const std::lock_guard<std::mutex> lock(mutex_);
  withdrawn_early_.erase(id);
}

bool SlotCredits::freed(std::uint32_t id, std::uint64_t generation) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = slots_.find(id);
  if (found == slots_.end()) return false;
  found->second.granted = generation;
  return true;
}

bool SlotCredits::withdrawn(std::uint32_t id) {
  Slot slot;  // goes after the lock
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = slots_.find(id);
  if (found == slots_.end()) {
    if (withdrawn_early_.size() < kMaxEarly) withdrawn_early_.insert(id);
    return true;
  }
  slot = std::move(found->second);
  slots_.erase(found);
  const auto edge = by_edge_.find(slot.edge);
  std::vector<std::uint32_t>& ids = edge->second;
  ids.erase(std::remove(ids.begin(), ids.end(), id), ids.end());
  if (ids.empty()) by_edge_.erase(edge);
  return slot.granted.has_value();
}

void SlotCredits::clear() {
  std::unordered_map<std::uint32_t, Slot> gone;  // after the lock
  const std::lock_guard<std::mutex> lock(mutex_);
  cleared_ = true;
  gone.swap(slots_);
  by_edge_.clear();
  withdrawn_early_.clear();
}

}  // namespace farwrite::plugin
