// Byte streams of many slices: long ones that are cut from one buffer, with short ones in between,
// as an RPC library writes its frames.
#include <algorithm>
#include <future>
#include <memory>
#include <random>
#include <vector>

#include "conformance/stream_fixture.h"

namespace farwrite::stream {
namespace {

constexpr std::size_t kFrames = 64;
constexpr std::size_t kHeader = 9;
constexpr std::size_t kBody = 16384;

class StreamingGathered : public Streaming {
 protected:
  // Cuts `body` into frames, a header before each. Appends what is to arrive to `sent`.
  static std::vector<Slice> frames(const Slice& body, std::vector<std::byte>& sent) {
    std::vector<Slice> slices;
    for (std::size_t at = 0; at < body.bytes.size; at += kBody) {
      const std::vector<std::byte> header = make_bytes(kHeader, static_cast<std::uint32_t>(at));
      slices.push_back(heap_slice(header));
      sent.insert(sent.end(), header.begin(), header.end());
      const std::size_t size = std::min(kBody, body.bytes.size - at);
      slices.push_back({.bytes = {body.bytes.data + at, size}, .owner = body.owner});
      sent.insert(sent.end(), body.bytes.data + at, body.bytes.data + at + size);
    }
    return slices;
  }
  // Writes at the near end and reads at the far end.
  void pass(std::vector<Slice> slices, const std::vector<std::byte>& sent) {
    auto written = write(near_end_, std::move(slices));
    std::vector<std::byte> all;
    EXPECT_OK(read_to(far_end_, sent.size(), all));
    EXPECT_TRUE(all == sent);
    EXPECT_OK(outcome(std::move(written)));
  }
};

TEST_P(StreamingGathered, SlicesOfOneBufferAreOneLend) {
  std::vector<std::byte> sent;
  std::vector<Slice> slices = frames(device_slice(make_bytes(kFrames * kBody, 1)), sent);
  pass(std::move(slices), sent);
  const Stats stats = near_streams_.stats();
  EXPECT_EQ(stats.lent, 1U);
  EXPECT_EQ(stats.lent_bytes, kFrames * kBody);
  EXPECT_EQ(stats.messages, 1U);
  EXPECT_EQ(stats.message_bytes, kFrames * kHeader);
  EXPECT_EQ(stats.staged_bytes, 0U);
  EXPECT_TRUE(eventually([&] { return freed_ == 1; }));
}

TEST_P(StreamingGathered, SlicesOfOtherMemoryAreCopiedIntoOneLend) {
  std::vector<std::byte> sent;
  std::vector<Slice> slices = frames(heap_slice(make_bytes(kFrames * kBody, 2)), sent);
  pass(std::move(slices), sent);
  const Stats stats = near_streams_.stats();
  EXPECT_EQ(stats.lent, 1U);
  EXPECT_EQ(stats.staged_bytes, kFrames * kBody);
  EXPECT_EQ(stats.messages, 1U);
}

TEST_P(StreamingGathered, EachSliceMayHaveAnOwner) {
  std::vector<std::byte> sent;
  std::vector<Slice> slices = frames(device_slice(make_bytes(kFrames * kBody, 3)), sent);
  auto dropped = std::make_shared<std::atomic<std::size_t>>(0);
  for (Slice& slice : slices) {
    slice.owner = {slice.bytes.data, [dropped, buffer = slice.owner](const void*) { ++*dropped; }};
  }
  auto written = write(near_end_, std::move(slices));
  std::vector<std::byte> all;
  std::vector<Slice> kept;
  ASSERT_OK(read_to(far_end_, sent.size(), all, &kept));
  EXPECT_TRUE(all == sent);
  EXPECT_OK(outcome(std::move(written)));
  EXPECT_EQ(near_streams_.stats().lent, 1U);
  if (maps()) {
    EXPECT_EQ(freed_, 0);
    EXPECT_LE(*dropped, kFrames) << "the lent slices are still in use";
  }
  // The last slices of a region keep all of it.
  kept.erase(kept.begin(), kept.end() - 1);
  if (maps()) {
    EXPECT_EQ(freed_, 0);
  }
  kept.clear();
  EXPECT_TRUE(eventually([&] { return *dropped == 2 * kFrames && freed_ == 1; }));
}

TEST_P(StreamingGathered, SlicesThatAreNotAdjacentAreLendsOfTheirOwn) {
  const Slice buffer = device_slice(make_bytes(8 * kBody, 4));
  std::vector<Slice> slices;
  std::vector<std::byte> sent;
  for (const std::size_t block : {0, 1, 3, 2, 2, 5, 6, 7}) {
    const std::byte* const data = buffer.bytes.data + block * kBody;
    slices.push_back({.bytes = {data, kBody}, .owner = buffer.owner});
    sent.insert(sent.end(), data, data + kBody);
  }
  pass(std::move(slices), sent);
  EXPECT_EQ(near_streams_.stats().lent, 5U);
  EXPECT_EQ(near_streams_.stats().lent_bytes, sent.size());
}

// Segments may lie side by side, but no lend reaches over their border.
TEST_P(StreamingGathered, ALendEndsWithItsSegment) {
  const std::size_t size = std::size_t{1} << 20;
  std::vector<std::byte*> blocks;
  for (int i = 0; i < 8; ++i) {
    std::byte* const block = near_device_.allocate_raw(size);
    ASSERT_NE(block, nullptr);
    std::fill_n(block, size, static_cast<std::byte>(i + 1));
    blocks.push_back(block);
  }
  std::sort(blocks.begin(), blocks.end());
  std::vector<Slice> slices;
  std::vector<std::byte> sent;
  for (std::byte* const block : blocks) {
    slices.push_back({.bytes = {block, size},
                      .owner = {block, [device = near_device_](const std::byte* memory) mutable {
                                  device.free_raw(const_cast<std::byte*>(memory));
                                }}});
    sent.insert(sent.end(), block, block + size);
  }
  pass(std::move(slices), sent);
  EXPECT_GE(near_streams_.stats().lent, 1U);
  EXPECT_LE(near_streams_.stats().lent, blocks.size());
  EXPECT_EQ(near_streams_.stats().lent_bytes, sent.size());
}

TEST_P(StreamingGathered, PiecesStayWithinTheirBound) {
  Options options = small_sizes();
  options.lend_from = 1000;
  create(options);
  std::vector<std::byte> sent;
  const Slice buffer = device_slice(make_bytes(200'000, 5));
  std::vector<Slice> slices;
  for (std::size_t at = 0; at < buffer.bytes.size; at += 1000) {
    slices.push_back({.bytes = {buffer.bytes.data + at, 1000}, .owner = buffer.owner});
  }
  sent.assign(buffer.bytes.data, buffer.bytes.data + buffer.bytes.size);
  pass(std::move(slices), sent);
  // A quarter of the window each.
  EXPECT_EQ(near_streams_.stats().lent, 8U);
}

// Slices that cannot be lent, because no memory is left to copy them to, or no more may be lent to
// this peer, go in messages with what was gathered around them.
TEST_P(StreamingGathered, WhatCannotBeLentTravelsInMessages) {
  std::vector<std::byte*> all;
  for (std::size_t size = std::size_t{8} << 20; size >= 64; size /= 2) {
    while (std::byte* const block = near_device_.allocate_raw(size)) all.push_back(block);
  }
  std::vector<std::byte> sent;
  std::vector<Slice> slices = frames(heap_slice(make_bytes(kFrames * kBody, 6)), sent);
  pass(std::move(slices), sent);
  EXPECT_EQ(near_streams_.stats().lent, 0U);
  EXPECT_EQ(near_streams_.stats().message_bytes, sent.size());
  for (std::byte* const block : all) near_device_.free_raw(block);
  sent.clear();
  slices = frames(heap_slice(make_bytes(kFrames * kBody, 7)), sent);
  pass(std::move(slices), sent);
  EXPECT_GT(near_streams_.stats().lent, 0U) << "there is room again";
}

// Any mix of lengths, memories and gaps, through windows that all of them meet.
TEST_P(StreamingGathered, AnyMixOfSlicesKeepsItsBytesAndTheirOrder) {
  for (const std::uint64_t lend_from : {1, 500, 4000}) {
    Options options = small_sizes();
    options.lend_from = lend_from;
    create(options);
    std::mt19937 random(static_cast<std::uint32_t>(lend_from));
    std::vector<std::byte> sent;
    std::vector<std::future<Status>> written;
    std::vector<std::vector<Slice>> writes;
    for (int i = 0; i < 30; ++i) {
      const std::vector<std::byte> bytes = make_bytes(1 + random() % 60'000, random());
      const Slice buffer = random() % 2 == 0 ? device_slice(bytes) : heap_slice(bytes);
      std::vector<Slice>& slices = writes.emplace_back();
      for (std::size_t at = 0; at < bytes.size();) {
        std::size_t size = 1 + random() % (random() % 4 == 0 ? 20'000 : 2000);
        size = std::min(size, bytes.size() - at);
        slices.push_back({.bytes = {buffer.bytes.data + at, size}, .owner = buffer.owner});
        sent.insert(sent.end(), buffer.bytes.data + at, buffer.bytes.data + at + size);
        at += size;
        if (random() % 3 == 0) at += random() % 100;  // a gap
        if (random() % 2 == 0) {
          const std::vector<std::byte> header = make_bytes(random() % 20, random());
          slices.push_back(heap_slice(header));
          sent.insert(sent.end(), header.begin(), header.end());
        }
      }
    }
    auto reader = std::async(std::launch::async, [&] {
      std::vector<std::byte> all;
      EXPECT_OK(read_to(far_end_, SIZE_MAX, all));
      return all;
    });
    for (std::vector<Slice>& slices : writes) {
      written.push_back(write(near_end_, std::move(slices)));
    }
    auto finished = finish(near_end_);
    EXPECT_TRUE(reader.get() == sent) << "lend_from " << lend_from;
    for (auto& one : written) EXPECT_OK(outcome(std::move(one)));
    EXPECT_OK(outcome(std::move(finished)));
    EXPECT_GT(near_streams_.stats().lent, 0U);
  }
  EXPECT_TRUE(eventually(
      [&] { return near_device_.stats().send.used == 0 && far_device_.stats().send.used == 0; }));
}

FARWRITE_EVERY_FABRIC(StreamingGathered);
FARWRITE_ENCRYPTED_TOO(StreamingGathered);

}  // namespace
}  // namespace farwrite::stream
