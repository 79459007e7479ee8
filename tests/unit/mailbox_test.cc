// A mailbox's layout, and which ones of a peer are refused.
#include "fabric/shm/mailbox.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

namespace farwrite::fabric::shm {
namespace {

constexpr MailboxGeometry kSmall{.lanes = 3, .cells = 16, .rows = 5};

MailboxGeometry geometry(std::uint32_t lanes, std::uint32_t cells, std::uint32_t rows) {
  return {.lanes = lanes, .cells = cells, .rows = rows};
}

std::byte* bytes_of(void* pointer) { return static_cast<std::byte*>(pointer); }

core::UniqueFd duplicate(int fd) { return core::UniqueFd(::dup(fd)); }

TEST(Mailbox, AcceptsWhatThisLibraryMakes) {
  for (const std::uint32_t lanes : {1U, 2U, 64U, 65U}) {
    MailboxGeometry own;
    own.lanes = lanes;
    EXPECT_TRUE(own.plausible()) << lanes << " lanes";
  }
  EXPECT_TRUE(geometry(1, 1 << 16, 1 << 16).plausible()) << "larger ones of a later release";
}

TEST(Mailbox, RefusesImplausibleGeometries) {
  EXPECT_FALSE(geometry(0, 4096, 4096).plausible());
  EXPECT_FALSE(geometry(66, 4096, 4096).plausible());
  EXPECT_FALSE(geometry(1, 0, 4096).plausible());
  EXPECT_FALSE(geometry(1, 2048, 4096).plausible()) << "too small for the longest message";
  EXPECT_FALSE(geometry(1, 5000, 4096).plausible()) << "no power of two";
  EXPECT_FALSE(geometry(1, 1 << 17, 4096).plausible());
  EXPECT_FALSE(geometry(1, 0x80000000, 4096).plausible());
  EXPECT_FALSE(geometry(1, 4096, 0).plausible());
  EXPECT_FALSE(geometry(1, 4096, (1 << 16) + 1).plausible());
  EXPECT_FALSE(geometry(0xffffffff, 0xffffffff, 0xffffffff).plausible());
}

TEST(Mailbox, KeepsItsPartsApart) {
  const OwnMailbox mailbox = OwnMailbox::create(kSmall).value();
  const MailboxView& view = mailbox.view;
  std::byte* end_of_last = bytes_of(&view.header() + 1);
  const auto follows = [&](void* begin, std::uint64_t bytes) {
    const bool in_order = bytes_of(begin) >= end_of_last;
    const bool aligned = reinterpret_cast<std::uintptr_t>(begin) % 64 == 0;
    end_of_last = bytes_of(begin) + bytes;
    return in_order && aligned;
  };
  for (std::uint32_t row = 0; row < kSmall.rows; ++row) {
    EXPECT_TRUE(follows(&view.row(row), sizeof(GrantRow))) << "row " << row;
  }
  for (std::uint32_t lane = 0; lane < kSmall.lanes; ++lane) {
    EXPECT_TRUE(follows(&view.control(lane), sizeof(LaneControl))) << "control " << lane;
  }
  for (std::uint32_t lane = 0; lane < kSmall.lanes; ++lane) {
    EXPECT_TRUE(follows(view.cells(lane), kSmall.cells * sizeof(Cell))) << "cells " << lane;
  }
  EXPECT_LE(end_of_last, mailbox.segment->base() + mailbox.segment->bytes());
}

TEST(Mailbox, IsAsLongAsItsGeometrySays) {
  for (const MailboxGeometry& each : {kSmall, MailboxGeometry(), geometry(65, 65536, 65536)}) {
    const std::uint64_t parts = sizeof(MailboxHeader) + each.rows * sizeof(GrantRow) +
                                each.lanes * sizeof(LaneControl) +
                                std::uint64_t{each.lanes} * each.cells * sizeof(Cell);
    EXPECT_GE(each.bytes(), parts);
    EXPECT_LT(each.bytes(), parts + 4096);
    EXPECT_EQ(each.bytes() % 4096, 0U);
  }
}

TEST(Mailbox, StartsEmptyWithANonceOfItsOwn) {
  const OwnMailbox one = OwnMailbox::create(kSmall).value();
  const OwnMailbox other = OwnMailbox::create(kSmall).value();
  EXPECT_NE(one.nonce, other.nonce);
  EXPECT_EQ(one.view.header().nonce, one.nonce);
  EXPECT_NE(one.nonce, Nonce());
  for (std::uint32_t lane = 0; lane < kSmall.lanes; ++lane) {
    EXPECT_TRUE(RingConsumer(one.view.cells(lane), &one.view.control(lane), kSmall.cells).empty());
    EXPECT_EQ(one.view.control(lane).asleep.load(), 0U);
  }
  for (std::uint32_t row = 0; row < kSmall.rows; ++row) {
    EXPECT_EQ(one.view.row(row).open_region.load(), 0U);
    EXPECT_EQ(one.view.row(row).inflight.load(), 0U);
  }
}

TEST(Mailbox, IsTheSameMemoryOnBothSides) {
  const OwnMailbox own = OwnMailbox::create(kSmall).value();
  auto peer = PeerMailbox::map(duplicate(own.segment->fd()), kSmall);
  ASSERT_TRUE(peer.ok()) << peer.status().to_string();
  EXPECT_EQ(peer->nonce, own.nonce);
  EXPECT_NE(&peer->view.header(), &own.view.header());
  own.view.row(4).open_region.store(77);
  EXPECT_EQ(peer->view.row(4).open_region.load(), 77U);
  RingProducer producer(peer->view.cells(2), &peer->view.control(2), kSmall.cells);
  RingConsumer consumer(own.view.cells(2), &own.view.control(2), kSmall.cells);
  ASSERT_EQ(producer.push(RecordKind::kNotification, 5, {}), RingProducer::PushResult::kPushed);
  RingRecord record;
  ASSERT_EQ(consumer.pop(record), RingConsumer::PopResult::kRecord);
  EXPECT_EQ(record.tag, 5U);
}

TEST(Mailbox, RefusesOneThatIsSmallerThanItsGeometry) {
  const OwnMailbox own = OwnMailbox::create(kSmall).value();
  const auto peer = PeerMailbox::map(duplicate(own.segment->fd()), MailboxGeometry());
  EXPECT_EQ(peer.status().code(), StatusCode::kProtocolError) << peer.status().to_string();
}

TEST(Mailbox, RefusesOneThatItsOwnerCouldShrink) {
  core::UniqueFd fd(::memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_TRUE(fd.valid());
  ASSERT_EQ(::ftruncate(fd.get(), static_cast<off_t>(kSmall.bytes())), 0);
  const auto peer = PeerMailbox::map(std::move(fd), kSmall);
  EXPECT_EQ(peer.status().code(), StatusCode::kProtocolError) << peer.status().to_string();
}

}  // namespace
}  // namespace farwrite::fabric::shm
