// RecordQueue: the records about slots that a channel has to send, each lane's in order.
//
// They wait here for flush(), which sends them all. Grants of slots gather into one record.
// Thread-compatible; waits() is thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "device/channel.h"
#include "transfer/records.h"

namespace farwrite::transfer {

class RecordQueue {
 public:
  void add(std::uint32_t lane, RecordType type, std::vector<std::byte> record);
  void add_grant(std::uint32_t lane, Credit credit);
  // kWithdraw or kGivenUp. Nothing for no slots.
  void add_slot_list(std::uint32_t lane, RecordType type, const std::vector<std::uint32_t>& slots);

  // Whether something waits. To look without the lock.
  bool waits() const { return waits_.load(std::memory_order_relaxed); }
  // A channel that has ended takes everything, to no effect.
  void flush(Channel& channel);
  void clear() { queues_.clear(); }

 private:
  struct WaitingRecord {
    RecordType type;
    std::vector<std::byte> bytes;
  };
  // The records and grants that wait in one lane.
  struct LaneQueue {
    std::deque<WaitingRecord> records;
    std::vector<Credit> grants;  // behind the records

    void gather_grants();
    void flush(Channel& channel, std::uint32_t lane);
  };
  LaneQueue& queue_of(std::uint32_t lane);

  std::map<std::uint32_t, LaneQueue> queues_;  // by lane
  std::atomic<bool> waits_{false};
};

}  // namespace farwrite::transfer
