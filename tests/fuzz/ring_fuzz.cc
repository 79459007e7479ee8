// The shm ring's two ends over memory that the peer scribbles on between any two calls.
#include <algorithm>
#include <cstring>
#include <memory>

#include "fabric/shm/ring.h"
#include "target.h"

namespace farwrite::fuzz {
namespace {

using fabric::shm::Cell;
using fabric::shm::cells_for;
using fabric::shm::LaneControl;
using fabric::shm::RecordKind;
using fabric::shm::RingConsumer;
using fabric::shm::RingProducer;
using fabric::shm::RingRecord;

constexpr std::uint32_t kCells = 64;
constexpr std::size_t kBytes = kCells * sizeof(Cell);

enum Step : std::uint8_t { kPop, kStamp, kScribble, kWake, kPush, kSetHead, kSteps };

// Reads `length` payload bytes of a record at `position`, in the ring's own plain words: the first
// cell's payload, then whole cells, around the end.
Bytes payload_at(const Cell* cells, std::uint64_t position, std::uint64_t length) {
  Bytes all(kBytes);
  const std::size_t first = (position % kCells) * sizeof(Cell);
  const auto* base = reinterpret_cast<const std::byte*>(cells);
  for (std::size_t i = 0; i < kBytes; ++i) all[i] = base[(first + i) % kBytes];
  const std::size_t skip = offsetof(Cell, payload);
  return {all.begin() + skip, all.begin() + static_cast<std::ptrdiff_t>(skip + length)};
}

// A receiver's ring. All that is checked against is computed from what lies in the cells.
class Receiver {
 public:
  void pop() {
    const Cell& cell = cells_[head_ % kCells];
    const bool stamped = cell.stamp.load() == (static_cast<std::uint32_t>(head_) | 0x80000000U);
    const auto kind = cell.kind;
    const std::uint32_t tag = cell.tag;
    const std::uint64_t length = cell.length;
    const bool known = kind >= RecordKind::kNotification && kind <= RecordKind::kCopying;
    const bool fits = known && length <= fabric::shm::max_payload(kind, kCells);
    const Bytes payload = fits ? payload_at(cells_.get(), head_, length) : Bytes();
    const std::uint64_t told = control_.head.load();

    RingRecord record;
    const RingConsumer::PopResult popped = consumer_.pop(record);
    if (!stamped) {
      require(popped == RingConsumer::PopResult::kEmpty, "a cell without its stamp is no record");
    } else if (!fits) {
      require(popped == RingConsumer::PopResult::kCorrupt, "a record out of bounds is corrupt");
    }
    if (!stamped || !fits) {
      require(control_.head.load() == told, "nothing is freed without a record");
      return;
    }
    require(popped == RingConsumer::PopResult::kRecord, "a whole record is taken");
    require(record.kind == kind && record.tag == tag, "the header is what lay there");
    require(record.payload == payload, "the payload is what lay there");
    for (std::uint64_t i = 1; i < cells_for(length); ++i) {
      require(cells_[(head_ + i) % kCells].stamp.load() == 0, "freed payload is never a stamp");
    }
    head_ += cells_for(length);
    require(control_.head.load() == head_, "the sender is told what was freed");
  }

  // A header at the place where the receiver looks next, as a peer would write it.
  void stamp(Script& script) {
    Cell& cell = cells_[head_ % kCells];
    cell.kind = static_cast<RecordKind>(script.u8());
    cell.tag = script.u32();
    cell.length = script.u32();
    cell.stamp.store(static_cast<std::uint32_t>(head_) | 0x80000000U);
  }

  void scribble(Script& script) {
    const std::size_t at = script.u16() % kBytes;
    const ByteView bytes = script.bytes(std::min<std::size_t>(script.u8(), kBytes - at));
    if (bytes.size == 0) return;
    std::memcpy(reinterpret_cast<std::byte*>(cells_.get()) + at, bytes.data, bytes.size);
  }

  void wake(Script& script) {
    consumer_.request_wake();
    control_.asleep.store(script.u32());
    consumer_.withdraw_wake_request();
    require(control_.asleep.load() == 0, "a request can be withdrawn whatever the peer wrote");
  }

 private:
  // Of its own in memory, so that AddressSanitizer sees a read past either end.
  std::unique_ptr<Cell[]> cells_{new Cell[kCells]()};
  LaneControl control_{};
  RingConsumer consumer_{cells_.get(), &control_, kCells};
  std::uint64_t head_ = 0;
};

// A sender's ring, whose receiver tells what it likes.
class Sender {
 public:
  void push(Script& script) {
    const auto kind = static_cast<RecordKind>(1 + script.u8() % 3);
    const Bytes payload(script.u16() % (fabric::shm::max_payload(kind, kCells) + 1), std::byte{7});
    const std::uint64_t needed = cells_for(payload.size());
    RingProducer::PushResult expected = RingProducer::PushResult::kPushed;
    if (tail_ - known_head_ + needed > kCells) {
      const std::uint64_t head = control_.head.load();
      if (head < known_head_ || head > tail_) {
        expected = RingProducer::PushResult::kCorrupt;
      } else {
        known_head_ = head;
        if (tail_ - head + needed > kCells) expected = RingProducer::PushResult::kFull;
      }
    }
    require(producer_.push(kind, 1, view_of(payload)) == expected,
            "a record goes into free cells only, and an impossible head is corrupt");
    if (expected == RingProducer::PushResult::kPushed) tail_ += needed;
    (void)producer_.take_wake_request();
  }

  void set_head(Script& script) {
    const std::uint8_t how = script.u8();
    // Near the truth, where the mistakes are, or anything.
    control_.head.store(how < 128 ? tail_ - how : script.u64());
    control_.asleep.store(how);
  }

 private:
  std::unique_ptr<Cell[]> cells_{new Cell[kCells]()};
  LaneControl control_{};
  RingProducer producer_{cells_.get(), &control_, kCells};
  std::uint64_t tail_ = 0;
  std::uint64_t known_head_ = 0;
};

void run(ByteView input) {
  Script script(input);
  Receiver receiver;
  Sender sender;
  while (!script.empty()) {
    const std::uint8_t step = script.u8() % kSteps;
    if (step == kPop) receiver.pop();
    if (step == kStamp) receiver.stamp(script);
    if (step == kScribble) receiver.scribble(script);
    if (step == kWake) receiver.wake(script);
    if (step == kPush) sender.push(script);
    if (step == kSetHead) sender.set_head(script);
  }
  receiver.pop();
}

Bytes bytes(std::initializer_list<int> values) {
  Bytes all;
  for (const int value : values) all.push_back(static_cast<std::byte>(value));
  return all;
}

Bytes stamped(int kind, int length_low, int length_high) {
  return bytes({kStamp, kind, 9, 0, 0, 0, length_low, length_high, 0, 0, kPop});
}

Bytes repeated(const Bytes& part, int times) {
  Bytes all;
  for (int i = 0; i < times; ++i) all.insert(all.end(), part.begin(), part.end());
  return all;
}

Seeds seeds() {
  const Bytes notification = stamped(1, 0, 0);
  const Bytes longest = stamped(2, 0, 4);          // 1024 bytes: a quarter of the ring
  const Bytes longest_record = stamped(3, 64, 4);  // and the headroom
  const Bytes push_longest = bytes({kPush, 1, 0, 4});
  return {{"notifications", repeated(notification, 3)},
          {"around-the-end", repeated(longest, 5)},
          {"longest-records", repeated(longest_record, 5)},
          {"too-long", stamped(2, 1, 4)},
          {"unknown-kind", stamped(4, 0, 0)},
          {"scribbled-stamp", bytes({kScribble, 0, 0, 8, 0, 0, 0, 128, 1, 0, 0, 0, kPop})},
          {"wake", bytes({kWake, 255, 255, 255, 255})},
          {"sender-fills-up", repeated(push_longest, 5)},
          {"sender-told-the-truth",
           concatenated({repeated(push_longest, 4), bytes({kSetHead, 20}), push_longest})},
          {"sender-told-nonsense",
           concatenated({repeated(push_longest, 4),
                         bytes({kSetHead, 255, 255, 0, 0, 0, 0, 0, 0, 0}), push_longest})}};
}

[[maybe_unused]] const bool kAdded = add_target({"ring", run, seeds});

}  // namespace
}  // namespace farwrite::fuzz
