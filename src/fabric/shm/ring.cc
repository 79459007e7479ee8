#include "fabric/shm/ring.h"

#include <algorithm>
#include <cstring>

#include "core/with_memory.h"

namespace farwrite::fabric::shm {
namespace {

// Never zero, which is what a freed cell holds; 31 bits tell a record from one of an earlier lap.
constexpr std::uint32_t stamp_of(std::uint64_t position) {
  return static_cast<std::uint32_t>(position) | 0x80000000U;
}

struct RingRecordHead {
  RecordKind kind;
  std::uint16_t reserved;
  std::uint32_t tag;
  std::uint32_t length;
};
static_assert(sizeof(RingRecordHead) == offsetof(Cell, payload) - offsetof(Cell, kind));

// One copy, for checks on it: the peer can change the original between any two looks.
RingRecordHead head_of(const Cell& cell) {
  RingRecordHead head;
  std::memcpy(&head, &cell.kind, sizeof(head));
  return head;
}

// Calls `copy(cell bytes, payload offset, count)` for the pieces of a payload that starts in the
// cell at `position`: the first cell's 48 bytes, then whole cells up to the ring's end, then the
// rest from its start.
template <typename Copy>
void for_each_piece(Cell* cells, std::uint64_t cell_count, std::uint64_t position,
                    std::uint64_t length, Copy copy) {
  const std::uint64_t first = std::min<std::uint64_t>(length, kInlinePayload);
  copy(cells[position & (cell_count - 1)].payload, std::uint64_t{0}, first);
  std::uint64_t done = first;
  std::uint64_t at = position + 1;
  while (done < length) {
    const std::uint64_t index = at & (cell_count - 1);
    const std::uint64_t piece = std::min(length - done, (cell_count - index) * sizeof(Cell));
    copy(reinterpret_cast<std::byte*>(&cells[index]), done, piece);
    done += piece;
    at += (piece + sizeof(Cell) - 1) / sizeof(Cell);
  }
}

}  // namespace

RingProducer::PushResult RingProducer::make_room(std::uint64_t needed) {
  const std::uint64_t tail = tail_.load(std::memory_order_relaxed);
  if (tail - known_head_ + needed <= cell_count_) [[likely]] {
    return PushResult::kPushed;
  }
  const std::uint64_t head = control_->head.load(std::memory_order_acquire);
  // A head that goes back or passes us cannot come from an honest receiver.
  if (head < known_head_ || head > tail) return PushResult::kCorrupt;
  known_head_ = head;
  return tail - known_head_ + needed > cell_count_ ? PushResult::kFull : PushResult::kPushed;
}

void RingProducer::publish(Cell& cell, RecordKind kind, std::uint32_t tag, std::uint64_t length) {
  const std::uint64_t tail = tail_.load(std::memory_order_relaxed);
  cell.kind = kind;
  cell.reserved = 0;
  cell.tag = tag;
  cell.length = static_cast<std::uint32_t>(length);
  cell.stamp.store(stamp_of(tail), std::memory_order_release);
  tail_.store(tail + cells_for(length), std::memory_order_relaxed);
}

RingProducer::PushResult RingProducer::push(RecordKind kind, std::uint32_t tag, ByteView payload) {
  if (payload.size == 0) return push_hinted(kind, tag, LandingHint());
  const PushResult room = make_room(cells_for(payload.size));
  if (room != PushResult::kPushed) return room;
  const std::uint64_t tail = tail_.load(std::memory_order_relaxed);
  for_each_piece(cells_, cell_count_, tail, payload.size,
                 [&](std::byte* to, std::uint64_t offset, std::uint64_t count) {
                   std::memcpy(to, payload.data + offset, count);
                 });
  publish(cells_[tail & (cell_count_ - 1)], kind, tag, payload.size);
  return PushResult::kPushed;
}

RingProducer::PushResult RingProducer::push_hinted(RecordKind kind, std::uint32_t tag,
                                                   const LandingHint& landing) {
  const PushResult room = make_room(1);
  if (room != PushResult::kPushed) return room;
  Cell& cell = cells_[tail_.load(std::memory_order_relaxed) & (cell_count_ - 1)];
  std::memcpy(cell.payload, &landing, sizeof(landing));
  publish(cell, kind, tag, 0);
  return PushResult::kPushed;
}

std::optional<std::uint32_t> RingProducer::announce(const LandingHint& landing) {
  const std::uint32_t number = stamp_of(tail_.load(std::memory_order_relaxed));
  if (push_hinted(RecordKind::kCopying, number, landing) != PushResult::kPushed)
    return std::nullopt;
  return number;
}

bool RingProducer::take_wake_request() {
  // Pairs with request_wake(): either we see the request, or the receiver sees our stamp.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (control_->asleep.load(std::memory_order_relaxed) == 0) [[likely]] {
    return false;
  }
  return control_->asleep.exchange(0, std::memory_order_relaxed) != 0;
}

RingConsumer::PopResult RingConsumer::pop(RingRecord& record) {
  if (empty()) return PopResult::kEmpty;
  const std::uint64_t head = head_.load(std::memory_order_relaxed);
  const RingRecordHead header = head_of(cells_[head & (cell_count_ - 1)]);
  record.kind = header.kind;
  record.tag = header.tag;
  const std::uint64_t length = header.length;
  if (record.kind < RecordKind::kNotification || record.kind > RecordKind::kCopying) {
    return PopResult::kCorrupt;
  }
  if (length > max_payload(record.kind, cell_count_)) return PopResult::kCorrupt;
  const std::uint64_t taken = cells_for(length);
  record.payload.clear();
  if (length == 0) [[likely]] {
    std::memcpy(&record.landing, cells_[head & (cell_count_ - 1)].payload, sizeof(record.landing));
  } else {
    record.landing = {};
    const Status room = core::with_memory({}, "a record", [&] { record.payload.resize(length); });
    if (!room.ok()) return PopResult::kNoMemory;
    for_each_piece(cells_, cell_count_, head, length,
                   [&](const std::byte* from, std::uint64_t offset, std::uint64_t count) {
                     std::memcpy(record.payload.data() + offset, from, count);
                   });
    for (std::uint64_t i = 1; i < taken; ++i) {
      cells_[(head + i) & (cell_count_ - 1)].stamp.store(0, std::memory_order_relaxed);
    }
  }
  head_.store(head + taken, std::memory_order_relaxed);
  control_->head.store(head + taken, std::memory_order_release);
  return PopResult::kRecord;
}

bool RingConsumer::pop_bare(std::uint32_t& tag, LandingHint& landing) {
  if (empty()) return false;
  const std::uint64_t head = head_.load(std::memory_order_relaxed);
  const RingRecordHead record = head_of(cells_[head & (cell_count_ - 1)]);
  if (record.kind != RecordKind::kNotification || record.length != 0) return false;
  tag = record.tag;
  std::memcpy(&landing, cells_[head & (cell_count_ - 1)].payload, sizeof(landing));
  head_.store(head + 1, std::memory_order_relaxed);
  control_->head.store(head + 1, std::memory_order_release);
  return true;
}

bool RingConsumer::empty() const {
  const std::uint64_t head = head_.load(std::memory_order_relaxed);
  const Cell& cell = cells_[head & (cell_count_ - 1)];
  return cell.stamp.load(std::memory_order_acquire) != stamp_of(head);
}

void RingConsumer::request_wake() {
  control_->asleep.store(1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

}  // namespace farwrite::fabric::shm
