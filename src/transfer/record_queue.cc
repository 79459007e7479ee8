#include "transfer/record_queue.h"

#include <algorithm>
#include <utility>

namespace farwrite::transfer {

RecordQueue::Lane& RecordQueue::lane(std::uint32_t number) {
  waits_.store(true, std::memory_order_relaxed);
  return lanes_[number];
}

void RecordQueue::add(std::uint32_t number, RecordType type, std::vector<std::byte> record) {
  Lane& lane = this->lane(number);
  lane.gather_grants();
  lane.records.push_back({type, {}, std::move(record)});
}

void RecordQueue::add_grant(std::uint32_t number, Credit credit) {
  lane(number).grants.push_back(credit);
}

void RecordQueue::add_slot_list(std::uint32_t number, RecordType type,
                                const std::vector<std::uint32_t>& slots) {
  for (std::size_t at = 0; at < slots.size(); at += SlotListRecord::kMaxEntries) {
    const std::size_t count = std::min(slots.size() - at, SlotListRecord::kMaxEntries);
    const auto first = slots.begin() + static_cast<std::ptrdiff_t>(at);
    const SlotListRecord record{{first, first + static_cast<std::ptrdiff_t>(count)}};
    add(number, type, record.encode());
  }
}

void RecordQueue::add_reset(std::uint32_t number, const ResetRecord& reset) {
  Lane& lane = this->lane(number);
  lane.gather_grants();
  std::erase_if(lane.records, [&](const Record& record) {
    return record.type == RecordType::kReset && record.edge == reset.edge;
  });
  lane.records.push_back({RecordType::kReset, reset.edge, reset.encode()});
}

void RecordQueue::flush(Channel& channel) {
  bool left = false;
  for (auto& [number, lane] : lanes_) {
    lane.flush(channel, number);
    left = left || !lane.records.empty();
  }
  waits_.store(left, std::memory_order_relaxed);
}

void RecordQueue::Lane::gather_grants() {
  for (std::size_t at = 0; at < grants.size(); at += GrantRecord::kMaxEntries) {
    const std::size_t count = std::min(grants.size() - at, GrantRecord::kMaxEntries);
    const auto first = grants.begin() + static_cast<std::ptrdiff_t>(at);
    const GrantRecord record{{first, first + static_cast<std::ptrdiff_t>(count)}};
    records.push_back({RecordType::kGrant, {}, record.encode()});
  }
  grants.clear();
}

void RecordQueue::Lane::flush(Channel& channel, std::uint32_t number) {
  gather_grants();
  while (!records.empty()) {
    const Record& record = records.front();
    const Completion sent =
        channel.send({record.bytes.data(), record.bytes.size()}, tag_of(record.type), number);
    if (sent.done() && sent.wait().code() == StatusCode::kResourceExhausted) return;
    records.pop_front();
  }
}

}  // namespace farwrite::transfer
