// What the two ends of a byte stream tell each other.
#include <algorithm>

#include "stream/stream_frame.h"
#include "target.h"

namespace farwrite::fuzz {
namespace {

using stream::FrameKind;
using stream::StreamFrame;

void run(ByteView input) {
  const Result<StreamFrame> frame = StreamFrame::decode(input);
  if (!frame.ok()) return require_refusal(frame.status());
  require(frame.value().kind >= FrameKind::kData && frame.value().kind <= FrameKind::kProbed,
          "a kind is known");
  require(frame.value().payload.size + StreamFrame::kHeadBytes == input.size,
          "the payload ends with the message");
  require(frame.value().payload.size > 0 || frame.value().kind != FrameKind::kData,
          "data brings bytes");
  const Bytes head = frame.value().head();
  require(
      head.size() == StreamFrame::kHeadBytes && std::equal(head.begin(), head.end(), input.data),
      "a decoded head encodes to the same bytes");
}

Bytes seed(FrameKind kind, std::uint64_t value, const Bytes& payload) {
  return concatenated({StreamFrame{.kind = kind, .stream = 7, .value = value}.head(), payload});
}

Seeds seeds() {
  const Bytes text = {std::byte{'b'}, std::byte{'y'}, std::byte{'e'}};
  return {
      {"data", seed(FrameKind::kData, 0, text)},    {"lent", seed(FrameKind::kLent, 0, {})},
      {"credit", seed(FrameKind::kCredit, 99, {})}, {"end", seed(FrameKind::kEnd, 0, {})},
      {"taken", seed(FrameKind::kTaken, 0, {})},    {"abort", seed(FrameKind::kAbort, 0, text)},
      {"probe", seed(FrameKind::kProbe, 3, text)},  {"probed", seed(FrameKind::kProbed, 3, {})}};
}

[[maybe_unused]] const bool kAdded = add_target({"stream_frame", run, seeds});

}  // namespace
}  // namespace farwrite::fuzz
