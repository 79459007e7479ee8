// Reads that are held between the row of the current buffer and what that row says, while the
// buffer is set aside: they find another version, and never other bytes under the old one.
#include <cstring>

#include "box/client_state.h"
#include "box/segment_layout.h"
#include "box/segment_state.h"
#include "box/server_state.h"
#include "conformance/box_fixture.h"

namespace farwrite::box {
namespace {

constexpr std::uint64_t kFloats = 2 * kChunkBytes / sizeof(float) + 100;
constexpr std::uint32_t kKeptRow = 1;

class BoxDelayedRead : public Conformance {
 protected:
  ~BoxDelayedRead() override {
    EXPECT_OK(segment_->detach());
    EXPECT_OK(client_->close(kHang));
    kept_ = Pin();
    latest_ = Pin();
    hosted_.reset();
    EXPECT_OK(server_->close(kHang));
  }

  // The kept row has version 1, whose holder is silent; the other one has version 2.
  void SetUp() override {
    Conformance::SetUp();
    ServerOptions options;
    options.device = this->options();
    options.memory = std::uint64_t{64} << 20;
    options.device.segment_bytes = options.memory / 4;
    options.pool = 0;
    server_ = ServerState::serve(options).value();
    client_ =
        ClientState::connect(server_->device().endpoint(), {.device = this->options()}).value();
    SegmentSpec spec;
    spec.name = "weights";
    spec.dims = {kFloats};
    spec.buffers = 2;
    Result<ClientState::ReceivedReply> made = client_->call(
        {.verb = Verb::kCreate, .spec = spec, .creation = Creation::kExclusive}, kHang);
    ASSERT_OK(made);
    SegmentInfo info;
    info.key = made->reply.key;
    info.spec = spec;
    info.bytes = kFloats * sizeof(float);
    segment_ = SegmentState::open(client_, info, made.value()).value();
    hosted_ = server_->table().find(info.key).value();
    // The state lies beside the first buffer, in one segment of the device's memory.
    const RegionDescriptor state = hosted_->state().descriptor();
    const RegionDescriptor first = hosted_->buffer(hosted_->buffer_number(0)).value().descriptor();
    ASSERT_EQ(state.keys.size(), first.keys.size());
    for (std::size_t i = 0; i < state.keys.size(); ++i) {
      ASSERT_EQ(state.keys[i].key, first.keys[i].key);
    }
    state_ = hosted_->first_bytes().data - first.offset + state.offset;
    fill(1.0);
    kept_ = hosted_->pin([] { return true; }).value();
    fill(2.0);
    ASSERT_EQ(load_word(state_, SegmentLayout::kVersionAt), 2U);
    ASSERT_EQ(load_word(state_, SegmentLayout::stamp_at(kKeptRow)), SegmentLayout::stamp(1));
  }

  void fill(double value) {
    ChangeFields change;
    change.operation = Operation::kFill;
    change.length = Change::kWhole;
    change.factor = value;
    ASSERT_OK(hosted_->apply(change, {}, server_->loop()));
  }

  // Every read from now on has looked for the current buffer while that was in the kept row.
  void hold_readers() { store_word(state_, SegmentLayout::kCurrentAt, kKeptRow); }

  void expect_right_bytes(Consistency consistency) {
    std::vector<float> values(kFloats, -1.0F);
    Result<ReadResult> read =
        Segment(segment_).read({values.data(), values.size() * sizeof(float)}, 0,
                               {.consistency = consistency, .timeout = kHang});
    ASSERT_OK(read);
    EXPECT_TRUE(all_are(static_cast<float>(read->version), values));
  }

  std::shared_ptr<ServerState> server_;
  std::shared_ptr<ClientState> client_;
  std::shared_ptr<SegmentState> segment_;
  std::shared_ptr<HostedSegment> hosted_;
  Pin kept_, latest_;
  std::byte* state_ = nullptr;  // at the server
};

TEST_P(BoxDelayedRead, OfASlotWithAFreshBufferGetsTheCurrentVersion) {
  // The lease needs another buffer for the next change: the row gets one, which nothing fills.
  latest_ = hosted_->pin([] { return false; }).value();
  hold_readers();
  expect_right_bytes(Consistency::kSegment);
}

TEST_P(BoxDelayedRead, OfASlotWhoseDraftWasDroppedGetsTheCurrentVersion) {
  const std::optional<std::uint32_t> draft = hosted_->draft();
  ASSERT_EQ(draft, kKeptRow);
  hosted_->drop(*draft);
  hold_readers();
  expect_right_bytes(Consistency::kSegment);
  expect_right_bytes(Consistency::kChunk);
}

TEST_P(BoxDelayedRead, OfABufferWhoseDraftWasDroppedSeesAnotherNumber) {
  kept_ = Pin();
  // What a reader compares before it copies a chunk and after.
  const std::uint64_t number = load_word(state_, SegmentLayout::buffer_at(kKeptRow));
  const std::optional<std::uint32_t> draft = hosted_->draft();
  ASSERT_EQ(draft, kKeptRow);
  std::memset(hosted_->draft_bytes(*draft).data, 1, kFloats * sizeof(float));
  hosted_->drop(*draft);
  EXPECT_NE(load_word(state_, SegmentLayout::buffer_at(kKeptRow)), number);
  fill(3.0);
  expect_right_bytes(Consistency::kChunk);
}

TEST_P(BoxDelayedRead, OfChunksOfAFreshBufferGetsTheCurrentOnes) {
  latest_ = hosted_->pin([] { return false; }).value();
  hold_readers();
  expect_right_bytes(Consistency::kChunk);
}

TEST_P(BoxDelayedRead, OfASlotThatAWriteFilledGetsWhatThatWrote) {
  latest_ = hosted_->pin([] { return false; }).value();
  fill(3.0);
  hold_readers();
  expect_right_bytes(Consistency::kSegment);
  expect_right_bytes(Consistency::kChunk);
}

FARWRITE_EVERY_FABRIC_INSIDE(BoxDelayedRead);

}  // namespace
}  // namespace farwrite::box
