// The ring's promises, and what it answers when the other process breaks them.
#include "fabric/shm/ring.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "core/unique_fd.h"

namespace farwrite::fabric::shm {
namespace {

constexpr int kHangMs = 30'000;

// Both ends of a ring in one process, over memory that a test may spoil.
struct Ring {
  explicit Ring(std::uint32_t cell_count = 64)
      : cells(cell_count),
        producer(cells.data(), &control, cell_count),
        consumer(cells.data(), &control, cell_count) {}

  // Moves both ends on by `count` cells.
  void advance(std::uint64_t count) {
    RingRecord record;
    for (std::uint64_t i = 0; i < count; ++i) {
      ASSERT_EQ(producer.push(RecordKind::kNotification, 0, {}), RingProducer::PushResult::kPushed);
      ASSERT_EQ(consumer.pop(record), RingConsumer::PopResult::kRecord);
    }
  }

  std::vector<Cell> cells;
  LaneControl control{};
  RingProducer producer;
  RingConsumer consumer;
};

std::vector<std::byte> make_payload(std::size_t bytes, std::uint32_t seed) {
  std::vector<std::byte> payload(bytes);
  for (std::size_t i = 0; i < bytes; ++i) {
    payload[i] = static_cast<std::byte>((seed * 131 + i * 7 + i / 64) & 255);
  }
  return payload;
}

// Pushes one message and takes it out again, whole.
void expect_passage(Ring& ring, std::size_t bytes, std::uint32_t tag) {
  const std::vector<std::byte> payload = make_payload(bytes, tag);
  ASSERT_EQ(ring.producer.push(RecordKind::kMessage, tag, {payload.data(), payload.size()}),
            RingProducer::PushResult::kPushed);
  RingRecord record;
  ASSERT_EQ(ring.consumer.pop(record), RingConsumer::PopResult::kRecord);
  EXPECT_EQ(record.kind, RecordKind::kMessage);
  EXPECT_EQ(record.tag, tag);
  EXPECT_EQ(record.payload, payload) << bytes << " bytes";
  EXPECT_EQ(ring.consumer.pop(record), RingConsumer::PopResult::kEmpty);
}

TEST(Ring, IsEmptyWhenItsMemoryIsAllZero) {
  Ring ring;
  RingRecord record;
  EXPECT_TRUE(ring.consumer.empty());
  EXPECT_EQ(ring.consumer.pop(record), RingConsumer::PopResult::kEmpty);
}

TEST(Ring, CarriesEveryPayloadSizeUpToItsMaximum) {
  Ring ring;
  for (std::size_t bytes = 0; bytes <= max_payload(64); ++bytes) {
    ASSERT_NO_FATAL_FAILURE(expect_passage(ring, bytes, static_cast<std::uint32_t>(bytes)));
  }
}

TEST(Ring, CarriesPayloadsAcrossItsEnd) {
  for (std::uint64_t start = 0; start < 64; ++start) {
    for (const std::size_t bytes : {1, 48, 49, 111, 112, 113, 176, 177, 1000, 1024}) {
      Ring ring;
      ASSERT_NO_FATAL_FAILURE(ring.advance(start));
      ASSERT_NO_FATAL_FAILURE(expect_passage(ring, bytes, static_cast<std::uint32_t>(start)));
    }
  }
}

TEST(Ring, KeepsTheOrderOfSeveralRecords) {
  Ring ring;
  for (std::uint32_t tag = 0; tag < 10; ++tag) {
    const std::vector<std::byte> payload = make_payload(tag * 20, tag);
    ASSERT_EQ(ring.producer.push(RecordKind::kMessage, tag, {payload.data(), payload.size()}),
              RingProducer::PushResult::kPushed);
  }
  RingRecord record;
  for (std::uint32_t tag = 0; tag < 10; ++tag) {
    ASSERT_EQ(ring.consumer.pop(record), RingConsumer::PopResult::kRecord);
    EXPECT_EQ(record.tag, tag);
    EXPECT_EQ(record.payload, make_payload(tag * 20, tag));
  }
}

TEST(Ring, CarriesTheHintOfAWriteAndNoneForWhatIsNoWrite) {
  Ring ring;
  RingRecord record;
  // More than a lap, so that cells hold hints of earlier records.
  for (std::uint32_t i = 0; i < 200; ++i) {
    ASSERT_EQ(ring.producer.push(i, {i, 64, std::uint64_t{i} << 32}),
              RingProducer::PushResult::kPushed);
    ASSERT_EQ(ring.consumer.pop(record), RingConsumer::PopResult::kRecord);
    EXPECT_EQ(record.kind, RecordKind::kNotification);
    EXPECT_EQ(record.tag, i);
    EXPECT_TRUE(record.payload.empty());
    EXPECT_EQ(record.landing.row, i);
    EXPECT_EQ(record.landing.bytes, 64U);
    EXPECT_EQ(record.landing.offset, std::uint64_t{i} << 32);
    const std::vector<std::byte> payload = make_payload(i % 2 * 100, i);
    ASSERT_EQ(ring.producer.push(RecordKind::kMessage, i, {payload.data(), payload.size()}),
              RingProducer::PushResult::kPushed);
    ASSERT_EQ(ring.consumer.pop(record), RingConsumer::PopResult::kRecord);
    EXPECT_EQ(record.landing.bytes, 0U);
  }
}

TEST(Ring, TellsHowMuchOfAnAnnouncedWriteIsCopied) {
  Ring ring;
  const auto first = ring.producer.announce({3, 8192, 64});
  ASSERT_TRUE(first);
  RingRecord record;
  ASSERT_EQ(ring.consumer.pop(record), RingConsumer::PopResult::kRecord);
  EXPECT_EQ(record.kind, RecordKind::kCopying);
  EXPECT_EQ(record.tag, *first);
  EXPECT_EQ(record.landing.row, 3U);
  EXPECT_EQ(record.landing.bytes, 8192U);
  EXPECT_EQ(record.landing.offset, 64U);
  EXPECT_EQ(ring.consumer.copied(*first), 0U);
  ring.producer.report(*first, 4096);
  EXPECT_EQ(ring.consumer.copied(*first), 4096U);

  // Another thread's write takes the one place for it.
  const auto second = ring.producer.announce({4, 100, 0});
  ASSERT_TRUE(second);
  ring.producer.report(*second, 100);
  EXPECT_EQ(ring.consumer.copied(*first), 0U);
  EXPECT_EQ(ring.consumer.copied(*second), 100U);
}

TEST(Ring, AnnouncesNothingWhenItIsFull) {
  Ring ring;
  for (int i = 0; i < 64; ++i) ASSERT_TRUE(ring.producer.announce({0, 8192, 0}));
  EXPECT_FALSE(ring.producer.announce({0, 8192, 0}));
  ring.control.head.store(1000);  // a receiver that lies: the next push says so
  EXPECT_FALSE(ring.producer.announce({0, 8192, 0}));
  EXPECT_EQ(ring.producer.push(RecordKind::kNotification, 0, {}),
            RingProducer::PushResult::kCorrupt);
}

TEST(Ring, NeverTakesOldPayloadForARecord) {
  // The stamps of the first laps, learnt from a ring of single cells.
  Ring twin;
  std::vector<std::uint32_t> stamps;
  RingRecord record;
  for (std::uint64_t position = 0; position < 256; ++position) {
    ASSERT_EQ(twin.producer.push(RecordKind::kNotification, 0, {}),
              RingProducer::PushResult::kPushed);
    stamps.push_back(twin.cells[position % 64].stamp.load());
    ASSERT_EQ(twin.consumer.pop(record), RingConsumer::PopResult::kRecord);
  }
  // Messages of 16 cells whose payload is, cell by cell, the stamp that comes there one lap later.
  Ring ring;
  for (std::uint64_t first = 0; first < 64; first += 16) {
    std::vector<std::byte> payload(kInlinePayload + 15 * sizeof(Cell), std::byte{0x5a});
    for (std::uint64_t cell = 1; cell < 16; ++cell) {
      std::memcpy(payload.data() + kInlinePayload + (cell - 1) * sizeof(Cell),
                  &stamps[first + cell + 64], sizeof(std::uint32_t));
    }
    ASSERT_EQ(ring.producer.push(RecordKind::kMessage, 1, {payload.data(), payload.size()}),
              RingProducer::PushResult::kPushed);
    ASSERT_EQ(ring.consumer.pop(record), RingConsumer::PopResult::kRecord);
    ASSERT_EQ(record.payload, payload);
  }
  for (std::uint64_t position = 64; position < 128; ++position) {
    ASSERT_EQ(ring.consumer.pop(record), RingConsumer::PopResult::kEmpty) << "at " << position;
    ASSERT_NO_FATAL_FAILURE(ring.advance(1));
  }
}

TEST(Ring, RefusesARecordWhenFullAndTakesItOnceThereIsRoom) {
  Ring ring;
  RingRecord record;
  for (std::uint32_t i = 0; i < 64; ++i) {
    ASSERT_EQ(ring.producer.push(RecordKind::kNotification, i, {}),
              RingProducer::PushResult::kPushed);
  }
  EXPECT_EQ(ring.producer.push(RecordKind::kNotification, 64, {}), RingProducer::PushResult::kFull);
  ASSERT_EQ(ring.consumer.pop(record), RingConsumer::PopResult::kRecord);
  EXPECT_EQ(ring.producer.push(RecordKind::kNotification, 64, {}),
            RingProducer::PushResult::kPushed);
  for (std::uint32_t tag = 1; tag <= 64; ++tag) {
    ASSERT_EQ(ring.consumer.pop(record), RingConsumer::PopResult::kRecord);
    EXPECT_EQ(record.tag, tag);
  }
}

TEST(Ring, WaitsForRoomForAWholeMessage) {
  Ring ring;
  RingRecord record;
  for (int i = 0; i < 63; ++i) {
    ASSERT_EQ(ring.producer.push(RecordKind::kNotification, 0, {}),
              RingProducer::PushResult::kPushed);
  }
  const std::vector<std::byte> payload = make_payload(kInlinePayload + 1, 3);
  const ByteView two_cells{payload.data(), payload.size()};
  EXPECT_EQ(ring.producer.push(RecordKind::kMessage, 9, two_cells),
            RingProducer::PushResult::kFull);
  ASSERT_EQ(ring.consumer.pop(record), RingConsumer::PopResult::kRecord);
  EXPECT_EQ(ring.producer.push(RecordKind::kMessage, 9, two_cells),
            RingProducer::PushResult::kPushed);
}

TEST(Ring, CallsAHeadThatPassedTheTailCorrupt) {
  Ring ring;
  for (int i = 0; i < 64; ++i) {
    ASSERT_EQ(ring.producer.push(RecordKind::kNotification, 0, {}),
              RingProducer::PushResult::kPushed);
  }
  ring.control.head.store(65);
  EXPECT_EQ(ring.producer.push(RecordKind::kNotification, 0, {}),
            RingProducer::PushResult::kCorrupt);
}

TEST(Ring, CallsAHeadThatGoesBackCorrupt) {
  Ring ring;
  ASSERT_NO_FATAL_FAILURE(ring.advance(65));  // makes the producer read the head once
  for (int i = 0; i < 63; ++i) {
    ASSERT_EQ(ring.producer.push(RecordKind::kNotification, 0, {}),
              RingProducer::PushResult::kPushed);
  }
  ring.control.head.store(1);
  EXPECT_EQ(ring.producer.push(RecordKind::kNotification, 0, {}),
            RingProducer::PushResult::kCorrupt);
}

TEST(Ring, RejectsAnUnknownKindOfRecord) {
  for (const std::uint16_t kind : {0, 5, 0xffff}) {
    Ring ring;
    RingRecord record;
    ASSERT_EQ(ring.producer.push(RecordKind::kNotification, 0, {}),
              RingProducer::PushResult::kPushed);
    ring.cells[0].kind = static_cast<RecordKind>(kind);
    EXPECT_EQ(ring.consumer.pop(record), RingConsumer::PopResult::kCorrupt) << kind;
  }
}

TEST(Ring, ARecordMayCarryTheLongestMessageBehindAHeader) {
  Ring ring;
  RingRecord record;
  const std::vector<std::byte> payload(max_payload(64) + kRecordHeadroom, std::byte{7});
  ASSERT_EQ(ring.producer.push(RecordKind::kRecord, 4, {payload.data(), payload.size()}),
            RingProducer::PushResult::kPushed);
  ASSERT_EQ(ring.consumer.pop(record), RingConsumer::PopResult::kRecord);
  EXPECT_EQ(record.kind, RecordKind::kRecord);
  EXPECT_EQ(record.payload, payload);
  ASSERT_EQ(ring.producer.push(RecordKind::kRecord, 4, {payload.data(), payload.size()}),
            RingProducer::PushResult::kPushed);
  for (Cell& cell : ring.cells) ++cell.length;
  EXPECT_EQ(ring.consumer.pop(record), RingConsumer::PopResult::kCorrupt);
}

TEST(Ring, PopsABareNotificationAndLeavesAllElseToPop) {
  Ring ring;
  RingRecord record;
  std::uint32_t tag = 0;
  LandingHint landing;
  EXPECT_FALSE(ring.consumer.pop_bare(tag, landing));
  ASSERT_EQ(ring.producer.push(7, LandingHint{2, 8, 64}), RingProducer::PushResult::kPushed);
  ASSERT_TRUE(ring.consumer.pop_bare(tag, landing));
  EXPECT_EQ(tag, 7U);
  EXPECT_EQ(landing.row, 2U);
  EXPECT_EQ(landing.bytes, 8U);
  EXPECT_EQ(landing.offset, 64U);
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{8}, std::size_t{100}}) {
    const std::vector<std::byte> payload = make_payload(bytes, 9);
    for (const RecordKind kind : {RecordKind::kMessage, RecordKind::kRecord}) {
      ASSERT_EQ(ring.producer.push(kind, 9, {payload.data(), bytes}),
                RingProducer::PushResult::kPushed);
      EXPECT_FALSE(ring.consumer.pop_bare(tag, landing)) << bytes;
      ASSERT_EQ(ring.consumer.pop(record), RingConsumer::PopResult::kRecord);
      EXPECT_EQ(record.payload, payload);
    }
  }
  ASSERT_TRUE(ring.producer.announce({0, 4096, 0}).has_value());
  EXPECT_FALSE(ring.consumer.pop_bare(tag, landing));
  ASSERT_EQ(ring.consumer.pop(record), RingConsumer::PopResult::kRecord);
  EXPECT_EQ(record.kind, RecordKind::kCopying);
  // All around the ring, and between records that pop() takes.
  for (std::uint32_t next = 0; next < 200; ++next) {
    ASSERT_EQ(ring.producer.push(next, LandingHint()), RingProducer::PushResult::kPushed) << next;
    if (next % 3 == 0) {
      ASSERT_EQ(ring.consumer.pop(record), RingConsumer::PopResult::kRecord);
      ASSERT_EQ(record.tag, next);
    } else {
      ASSERT_TRUE(ring.consumer.pop_bare(tag, landing));
      ASSERT_EQ(tag, next);
    }
  }
}

TEST(Ring, PopsNoForgedRecordAsABareNotification) {
  for (const bool forged_kind : {true, false}) {
    Ring ring;
    RingRecord record;
    std::uint32_t tag = 0;
    LandingHint landing;
    ASSERT_EQ(ring.producer.push(RecordKind::kNotification, 0, {}),
              RingProducer::PushResult::kPushed);
    if (forged_kind) {
      ring.cells[0].kind = static_cast<RecordKind>(99);
    } else {
      ring.cells[0].length = 0xffffffff;
    }
    EXPECT_FALSE(ring.consumer.pop_bare(tag, landing));
    EXPECT_EQ(ring.consumer.pop(record), RingConsumer::PopResult::kCorrupt);
  }
}

TEST(Ring, RejectsALengthOverItsMaximum) {
  for (const std::uint64_t length : {max_payload(64) + 1, std::uint64_t{0xffffffff}}) {
    Ring ring;
    RingRecord record;
    ASSERT_EQ(ring.producer.push(RecordKind::kMessage, 0, {}), RingProducer::PushResult::kPushed);
    ring.cells[0].length = static_cast<std::uint32_t>(length);
    EXPECT_EQ(ring.consumer.pop(record), RingConsumer::PopResult::kCorrupt) << length;
  }
}

TEST(Ring, AsksToBeWokenOncePerRequest) {
  Ring ring;
  EXPECT_FALSE(ring.producer.take_wake_request());
  ring.consumer.request_wake();
  EXPECT_TRUE(ring.producer.take_wake_request());
  EXPECT_FALSE(ring.producer.take_wake_request());
  ring.consumer.request_wake();
  ring.consumer.withdraw_wake_request();
  EXPECT_FALSE(ring.producer.take_wake_request());
}

TEST(Ring, DeliversEveryByteInOrderBetweenTwoThreads) {
  constexpr std::uint32_t kRecords = 100'000;
  Ring ring;
  const auto size_of = [](std::mt19937& random) {
    // Mostly small, now and then anything that fits.
    return random() % 4 == 0 ? random() % (max_payload(64) + 1) : random() % 60;
  };
  std::thread sender([&] {
    std::mt19937 random(7);
    for (std::uint32_t tag = 0; tag < kRecords; ++tag) {
      const std::vector<std::byte> payload = make_payload(size_of(random), tag);
      while (ring.producer.push(RecordKind::kMessage, tag, {payload.data(), payload.size()}) !=
             RingProducer::PushResult::kPushed) {
        std::this_thread::yield();
      }
    }
  });
  std::mt19937 random(7);
  RingRecord record;
  std::uint32_t wrong = 0;
  for (std::uint32_t tag = 0; tag < kRecords; ++tag) {
    RingConsumer::PopResult popped = RingConsumer::PopResult::kEmpty;
    while ((popped = ring.consumer.pop(record)) == RingConsumer::PopResult::kEmpty) {
      std::this_thread::yield();
    }
    const bool right = popped == RingConsumer::PopResult::kRecord && record.tag == tag &&
                       record.payload == make_payload(size_of(random), tag);
    wrong += right ? 0 : 1;
  }
  sender.join();
  EXPECT_EQ(wrong, 0U);
}

TEST(Ring, LosesNoWakeUp) {
  constexpr std::uint32_t kRounds = 100'000;
  Ring ring;
  const core::UniqueFd doorbell(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  ASSERT_TRUE(doorbell.valid());
  std::atomic<std::uint32_t> taken{0};
  std::atomic<bool> given_up{false};
  // Both ends wander against each other, so that a push meets every step of falling asleep.
  const auto dawdle = [](std::mt19937& random) {
    for (volatile std::uint32_t turn = random() % 256; turn > 0;) turn = turn - 1;
  };
  std::thread sender([&] {
    std::mt19937 random(1);
    for (std::uint32_t round = 0; round < kRounds; ++round) {
      // One record at a time, so that the receiver is about to sleep at every one of them.
      for (int turn = 0; taken.load() < round && !given_up.load(); ++turn) {
        if (turn > 1000) std::this_thread::yield();
      }
      dawdle(random);
      (void)ring.producer.push(RecordKind::kNotification, round, {});
      const std::uint64_t one = 1;
      if (ring.producer.take_wake_request()) {
        ASSERT_EQ(::write(doorbell.get(), &one, sizeof(one)), 8);
      }
    }
  });
  std::mt19937 random(2);
  RingRecord record;
  while (taken.load() < kRounds && !given_up.load()) {
    if (ring.consumer.pop(record) == RingConsumer::PopResult::kRecord) {
      taken.fetch_add(1);
      continue;
    }
    dawdle(random);
    ring.consumer.request_wake();
    if (!ring.consumer.empty()) {
      ring.consumer.withdraw_wake_request();
      continue;
    }
    pollfd entry{doorbell.get(), POLLIN, 0};
    given_up.store(::poll(&entry, 1, kHangMs) != 1);
    std::uint64_t rings = 0;
    [[maybe_unused]] const ssize_t drained = ::read(doorbell.get(), &rings, sizeof(rings));
  }
  sender.join();
  EXPECT_FALSE(given_up.load()) << "asleep in round " << taken.load();
}

}  // namespace
}  // namespace farwrite::fabric::shm
