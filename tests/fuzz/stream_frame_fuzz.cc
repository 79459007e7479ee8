// What the two ends of a byte stream tell each other.
#include <algorithm>
#include <memory>

#include "stream/data_pattern.h"
#include "stream/data_writer.h"
#include "stream/stream_frame.h"
#include "target.h"

namespace farwrite::fuzz {
namespace {

using stream::DataPattern;
using stream::DataWriter;
using stream::FrameKind;
using stream::Slice;
using stream::StreamFrame;

// Cuts the pattern in two and looks at the slices of both parts. The lent memory is not there.
void run_data(ByteView payload) {
  Result<DataPattern> whole = DataPattern::decode(payload);
  if (!whole.ok()) return require_refusal(whole.status());
  require(whole->inline_bytes() + whole->lent_bytes() > 0, "data brings bytes");
  DataPattern rest = *whole;
  const DataPattern front = rest.take(whole->lent_bytes() / 2);
  require(front.lent_bytes() == whole->lent_bytes() / 2, "as many lent bytes as were asked for");
  require(front.inline_bytes() + rest.inline_bytes() == whole->inline_bytes() &&
              front.lent_bytes() + rest.lent_bytes() == whole->lent_bytes(),
          "nothing is lost where it is cut");
  const auto lender = std::make_shared<const int>();
  const std::byte* lent = payload.data;
  const std::byte* inlined = payload.data;
  for (const DataPattern& part : {front, rest}) {
    const ByteView memory = {lent, static_cast<std::size_t>(part.lent_bytes())};
    for (const Slice& slice : part.slices(nullptr, {.bytes = memory, .owner = lender})) {
      require(slice.bytes.size > 0, "a slice has bytes");
      if (slice.owner != nullptr) {
        require(slice.bytes.data == lent, "lent slices follow each other");
        lent += slice.bytes.size;
      } else {
        require(slice.bytes.data > inlined, "inline slices keep their order");
        inlined = slice.bytes.data + slice.bytes.size;
      }
    }
  }
  require(lent == payload.data + whole->lent_bytes(), "every lent byte is in a slice");
  require(inlined <= payload.data + payload.size, "inline slices lie in the message");
}

void run(ByteView input) {
  const Result<StreamFrame> frame = StreamFrame::decode(input);
  if (!frame.ok()) return require_refusal(frame.status());
  require(frame.value().kind >= FrameKind::kData && frame.value().kind <= FrameKind::kBreak,
          "a kind is known");
  require(frame.value().payload.size + StreamFrame::kHeadBytes == input.size,
          "the payload ends with the message");
  const Bytes head = frame.value().head();
  require(
      head.size() == StreamFrame::kHeadBytes && std::equal(head.begin(), head.end(), input.data),
      "a decoded head encodes to the same bytes");
  if (frame.value().kind == FrameKind::kData) run_data(frame.value().payload);
}

Bytes seed(FrameKind kind, std::uint64_t value, const Bytes& payload) {
  return concatenated({StreamFrame{.kind = kind, .stream = 7, .value = value}.head(), payload});
}

// 64 slices of 16 KiB out of one buffer, a header before each.
Bytes pattern_seed(ByteView header) {
  DataWriter writer(7, 64 * (DataPattern::kPairBytes + header.size));
  for (int i = 0; i < 64; ++i) {
    writer.copy(header);
    writer.lend(16384);
  }
  return writer.take();
}

Bytes data_seed(ByteView bytes) {
  DataWriter writer(7, DataPattern::kPairBytes + bytes.size);
  writer.copy(bytes);
  return writer.take();
}

Bytes lent_seed() {
  DataWriter writer(7, DataPattern::kPairBytes);
  writer.lend(1 << 20);
  return writer.take();
}

Seeds seeds() {
  const Bytes text = {std::byte{'b'}, std::byte{'y'}, std::byte{'e'}};
  return {{"data", data_seed(view_of(text))},
          {"lent", lent_seed()},
          {"pattern", pattern_seed(view_of(text))},
          {"begin", seed(FrameKind::kBegin, 1 << 25, Bytes(8, std::byte{1}))},
          {"credit", seed(FrameKind::kCredit, 99, {})},
          {"end", seed(FrameKind::kEnd, 0, {})},
          {"taken", seed(FrameKind::kTaken, 0, {})},
          {"abort", seed(FrameKind::kAbort, 0, text)},
          {"probe", seed(FrameKind::kProbe, 3, text)},
          {"probed", seed(FrameKind::kProbed, 3, {})}};
}

[[maybe_unused]] const bool kAdded = add_target({"stream_frame", run, seeds});

}  // namespace
}  // namespace farwrite::fuzz
