#include "transfer/credit_table.h"

#include <algorithm>
#include <utility>

namespace farwrite::transfer {

bool CreditTable::announce(std::string_view edge, AnnouncedSlot announced) {
  const std::uint32_t number = announced.credit.slot;
  if (slots_.size() >= kMaxSlotsOfPeer || slots_.contains(number)) return false;
  EdgeCredits& known = edges_.try_emplace(std::string(edge)).first->second;
  known.slots.push_back(number);
  known.to_open.push_back(number);
  ++known.grants;
  RemoteSlot slot;
  slot.edge = edge;
  slot.granted = announced.credit.generation;
  slot.announced = std::move(announced);
  slots_.emplace(number, std::move(slot));
  return true;
}

std::optional<AnnouncedSlot> CreditTable::next_to_open(std::string_view edge) {
  const auto found = edges_.find(edge);
  if (found == edges_.end() || found->second.closed || found->second.to_open.empty()) {
    return std::nullopt;
  }
  RemoteSlot& slot = slots_.at(found->second.to_open.front());
  found->second.to_open.pop_front();
  slot.opening = true;
  return slot.announced;
}

bool CreditTable::opened(std::uint32_t number, RemoteRegion target) {
  const auto found = slots_.find(number);
  if (found == slots_.end()) return false;
  RemoteSlot& slot = found->second;
  if (slot.withdrawn) {
    slots_.erase(found);
    return false;
  }
  slot.opening = false;
  EdgeCredits& edge = edges_.find(slot.edge)->second;
  if (!edge.closed) slot.target = std::move(target);
  edge.granted.push_back(number);
  return true;
}

void CreditTable::not_opened(std::uint32_t number) {
  const auto found = slots_.find(number);
  if (found == slots_.end()) return;
  if (!found->second.withdrawn) leave_edge(found->second.edge, number);
  slots_.erase(found);
}

void CreditTable::leave_edge(const std::string& name, std::uint32_t number) {
  const auto edge = edges_.find(name);
  std::erase(edge->second.slots, number);
  std::erase(edge->second.granted, number);
  std::erase(edge->second.to_open, number);
  if (edge->second.slots.empty()) edges_.erase(edge);
}

std::deque<std::uint32_t>::const_iterator CreditTable::fitting(const EdgeCredits& edge,
                                                               std::uint64_t bytes) const {
  return std::find_if(edge.granted.begin(), edge.granted.end(), [&](std::uint32_t number) {
    return slots_.at(number).announced.capacity >= bytes;
  });
}

bool CreditTable::has(std::string_view edge, std::uint64_t bytes) const {
  const auto found = edges_.find(edge);
  return found != edges_.end() && fitting(found->second, bytes) != found->second.granted.end();
}

std::optional<CreditTable::Taken> CreditTable::take(std::string_view edge, std::uint64_t bytes) {
  const auto found = edges_.find(edge);
  if (found == edges_.end() || found->second.closed) return std::nullopt;
  const auto fits = fitting(found->second, bytes);
  if (fits == found->second.granted.end()) return std::nullopt;
  RemoteSlot& slot = slots_.at(*fits);
  Taken taken{{*fits, *slot.granted}, slot.target};
  slot.granted.reset();
  found->second.granted.erase(fits);
  return taken;
}

bool CreditTable::put_back(Credit credit) {
  const auto found = slots_.find(credit.slot);
  if (found == slots_.end()) return false;
  found->second.granted = credit.generation;
  edges_.find(found->second.edge)->second.granted.push_front(credit.slot);
  return true;
}

bool CreditTable::grant(Credit credit) {
  const auto found = slots_.find(credit.slot);
  if (found == slots_.end() || found->second.granted.has_value()) return false;
  EdgeCredits& edge = edges_.find(found->second.edge)->second;
  found->second.granted = credit.generation;
  edge.granted.push_back(credit.slot);
  ++edge.grants;
  return true;
}

bool CreditTable::reset(Credit credit) {
  const auto found = slots_.find(credit.slot);
  if (found == slots_.end()) return false;
  if (found->second.granted.has_value()) found->second.granted = credit.generation;
  return true;
}

bool CreditTable::withdraw(std::uint32_t number, RemoteRegion& gone) {
  const auto found = slots_.find(number);
  if (found == slots_.end()) return false;
  RemoteSlot& slot = found->second;
  if (slot.withdrawn) return false;
  leave_edge(slot.edge, number);
  if (slot.opening) {
    slot.withdrawn = true;
    return false;
  }
  const bool unused = slot.granted.has_value();
  gone = std::move(slot.target);
  slots_.erase(found);
  return unused;
}

void CreditTable::close_edge(std::string_view edge, std::vector<RemoteRegion>& gone) {
  const auto found = edges_.find(edge);
  if (found == edges_.end()) return;
  found->second.closed = true;
  for (const std::uint32_t number : found->second.slots) {
    gone.push_back(std::exchange(slots_.at(number).target, {}));
  }
}

void CreditTable::clear(std::vector<RemoteRegion>& gone) {
  for (auto& [number, slot] : slots_) gone.push_back(std::move(slot.target));
  slots_.clear();
  edges_.clear();
}

void CreditTable::forget_edge(std::string_view edge, std::vector<RemoteRegion>& gone) {
  const auto found = edges_.find(edge);
  if (found == edges_.end()) return;
  for (const std::uint32_t number : found->second.slots) {
    const auto slot = slots_.find(number);
    if (slot->second.opening) {
      slot->second.withdrawn = true;
      continue;
    }
    gone.push_back(std::move(slot->second.target));
    slots_.erase(slot);
  }
  edges_.erase(found);
}

CreditTable::Counts CreditTable::counts(std::string_view edge) const {
  const auto found = edges_.find(edge);
  if (found == edges_.end()) return {};
  return {found->second.grants, found->second.granted.size()};
}

}  // namespace farwrite::transfer
