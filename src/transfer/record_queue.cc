#include "transfer/record_queue.h"

#include <algorithm>
#include <utility>

namespace farwrite::transfer {

RecordQueue::LaneQueue& RecordQueue::queue_of(std::uint32_t lane) {
  waits_.store(true, std::memory_order_relaxed);
  return queues_[lane];
}

void RecordQueue::add(std::uint32_t lane, RecordType type, std::vector<std::byte> record) {
  LaneQueue& queue = queue_of(lane);
  queue.gather_grants();
  queue.records.push_back({type, std::move(record)});
}

void RecordQueue::add_grant(std::uint32_t lane, Credit credit) {
  queue_of(lane).grants.push_back(credit);
}

void RecordQueue::add_slot_list(std::uint32_t lane, RecordType type,
                                const std::vector<std::uint32_t>& slots) {
  for (std::size_t at = 0; at < slots.size(); at += SlotListRecord::kMaxEntries) {
    const std::size_t count = std::min(slots.size() - at, SlotListRecord::kMaxEntries);
    const auto first = slots.begin() + static_cast<std::ptrdiff_t>(at);
    const SlotListRecord record{{first, first + static_cast<std::ptrdiff_t>(count)}};
    add(lane, type, record.encode());
  }
}

void RecordQueue::flush(Channel& channel) {
  for (auto& [lane, queue] : queues_) queue.flush(channel, lane);
  waits_.store(false, std::memory_order_relaxed);
}

void RecordQueue::LaneQueue::gather_grants() {
  for (std::size_t at = 0; at < grants.size(); at += GrantRecord::kMaxEntries) {
    const std::size_t count = std::min(grants.size() - at, GrantRecord::kMaxEntries);
    const auto first = grants.begin() + static_cast<std::ptrdiff_t>(at);
    const GrantRecord record{{first, first + static_cast<std::ptrdiff_t>(count)}};
    records.push_back({RecordType::kGrant, record.encode()});
  }
  grants.clear();
}

void RecordQueue::LaneQueue::flush(Channel& channel, std::uint32_t lane) {
  gather_grants();
  for (const WaitingRecord& record : records) {
    (void)channel.tell({record.bytes.data(), record.bytes.size()}, tag_of(record.type), lane);
  }
  records.clear();
}

}  // namespace farwrite::transfer
