// Ring: notifications and short messages from one process to another, through shared cells.
//
// The cells lie in the receiver's mailbox, which the sender maps. A record fills one cell of 64
// bytes, or several in a row for a longer message. Its first cell's stamp is released last, so a
// receiver that acquires the stamp sees the whole record, and every write the sender made before.
// The receiver trusts nothing: it copies a header into private memory once, then checks it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/prefetch.h"
#include "fabric/fabric.h"
#include "farwrite/bytes.h"

namespace farwrite::fabric::shm {

enum class RecordKind : std::uint16_t {
  kNotification = 1,
  kMessage = 2,
  kRecord = 3,   // for the receiver's device layer (device/channel_records.h)
  kCopying = 4,  // the sender copies a write now: a hint, which is not delivered
};

// One cell. A record's later cells hold payload only; the receiver clears their stamp when it
// frees them, so that old payload is never taken for a stamp.
struct alignas(64) Cell {
  std::atomic<std::uint32_t> stamp;  // low 31 bits of the record's position, and the top bit
  RecordKind kind;
  std::uint16_t reserved;
  std::uint32_t tag;
  std::uint32_t length;  // payload bytes
  std::byte payload[48];
};
static_assert(sizeof(Cell) == 64 && std::atomic<std::uint32_t>::is_always_lock_free);

inline constexpr std::size_t kInlinePayload = sizeof(Cell::payload);

// What both ends of a lane tell each other beside the cells, a cache line each: the sender reads
// `asleep` at every push, and `head` only when the ring looks full.
struct LaneControl {
  alignas(64) std::atomic<std::uint64_t> head;    // cells consumed so far
  alignas(64) std::atomic<std::uint32_t> asleep;  // 1: ring the doorbell after the next push
  // The sender's: the bytes that the last announced write has copied, below the number of the
  // announcement. Several threads may copy at a time, and the last one to store wins.
  alignas(64) std::atomic<std::uint64_t> copied;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

// Where the bytes of a notified write lie: a hint, by which the receiver fetches them before its
// user asks for them. It is as untrusted as all else in a cell.
struct LandingHint {
  std::uint32_t row = 0;     // of the mailbox, which guards the region
  std::uint32_t bytes = 0;   // 0: there is no hint
  std::uint64_t offset = 0;  // in the region
};
static_assert(sizeof(LandingHint) <= kInlinePayload);

struct RingRecord {
  RecordKind kind = RecordKind::kNotification;
  std::uint32_t tag = 0;
  std::vector<std::byte> payload;
  LandingHint landing;  // of a notification
};

// The sending end; the caller serializes its threads. `cell_count` is a power of two.
class RingProducer {
 public:
  enum class PushResult { kPushed, kFull, kCorrupt };

  RingProducer(Cell* cells, LaneControl* control, std::uint32_t cell_count)
      : cells_(cells), control_(control), cell_count_(cell_count) {}

  PushResult push(RecordKind kind, std::uint32_t tag, ByteView payload);
  // Whether the next push of a record without payload will succeed.
  bool has_room() { return make_room(1) == PushResult::kPushed; }
  // The notification of a write whose bytes have been copied.
  PushResult push(std::uint32_t tag, const LandingHint& landing) {
    return push_hinted(RecordKind::kNotification, tag, landing);
  }
  // Announces a write that is copied next, if there is room: a receiver that polls then fetches
  // what has been copied while the rest is being copied. Returns the number for report().
  std::optional<std::uint32_t> announce(const LandingHint& landing);
  // So many bytes of the announced write have been copied. Any thread may call it at any time.
  void report(std::uint32_t announcement, std::uint32_t bytes) {
    control_->copied.store(std::uint64_t{announcement} << 32 | bytes, std::memory_order_release);
  }
  // One look: whether the next push will have to wake the receiver.
  bool receiver_sleeps() const { return control_->asleep.load(std::memory_order_relaxed) != 0; }
  // Starts to fetch the cell that the next push fills: the receiver read it last. Any thread may
  // call it at any time.
  void prefetch() const {
    core::prefetch_for_write(&cells_[tail_.load(std::memory_order_relaxed) & (cell_count_ - 1)]);
  }
  // Whether the receiver asked to be woken; clears the request, so only one push wakes it.
  bool take_wake_request();

 private:
  PushResult push_hinted(RecordKind kind, std::uint32_t tag, const LandingHint& landing);
  // kPushed if `needed` cells are free.
  PushResult make_room(std::uint64_t needed);
  // Fills a cell's header, and hands the record over.
  void publish(Cell& cell, RecordKind kind, std::uint32_t tag, std::uint64_t length);

  Cell* cells_;
  LaneControl* control_;
  std::uint64_t cell_count_;
  std::atomic<std::uint64_t> tail_{
      0};  // stored by the pushing thread; prefetch() looks at any time
  std::uint64_t known_head_ = 0;
};

// The receiving end; one thread at a time.
class RingConsumer {
 public:
  enum class PopResult { kRecord, kEmpty, kCorrupt, kNoMemory };

  RingConsumer(Cell* cells, LaneControl* control, std::uint32_t cell_count)
      : cells_(cells), control_(control), cell_count_(cell_count) {}

  PopResult pop(RingRecord& record);
  // Pops the next record if it is a notification without payload. False: pop() says what there is.
  bool pop_bare(std::uint32_t& tag, LandingHint& landing);
  // Any thread may ask; one that does not pop may miss a record that arrives at the same time.
  bool empty() const;
  void request_wake();
  void withdraw_wake_request() { control_->asleep.store(0, std::memory_order_relaxed); }
  // How much of an announced write has been copied; nothing if the sender says nothing of it.
  std::uint32_t copied(std::uint32_t announcement) const {
    const std::uint64_t copied = control_->copied.load(std::memory_order_acquire);
    return copied >> 32 == announcement ? static_cast<std::uint32_t>(copied) : 0;
  }

 private:
  Cell* cells_;
  LaneControl* control_;
  std::uint64_t cell_count_;
  std::atomic<std::uint64_t> head_{0};  // stored by the thread that pops
};

// Cells that a record with this much payload takes.
constexpr std::uint64_t cells_for(std::uint64_t payload_bytes) {
  return payload_bytes <= kInlinePayload
             ? 1
             : 1 + (payload_bytes - kInlinePayload + sizeof(Cell) - 1) / sizeof(Cell);
}

// The longest payload a ring of this size takes: a quarter of it, so that one message never waits
// for the ring to be all empty.
constexpr std::uint64_t max_payload(std::uint64_t cell_count) {
  return (cell_count / 4) * sizeof(Cell);
}

// The same by kind: a record may carry the longest message behind a header.
constexpr std::uint64_t max_payload(RecordKind kind, std::uint64_t cell_count) {
  return max_payload(cell_count) + (kind == RecordKind::kRecord ? kRecordHeadroom : 0);
}

}  // namespace farwrite::fabric::shm
