// The frames of the control connection, cut out of a stream that arrives in pieces.
#include <algorithm>

#include "device/frame.h"
#include "target.h"

namespace farwrite::fuzz {
namespace {

using device::ControlFrameType;
using device::FrameSplitter;

// What a splitter makes of a stream that comes `piece` bytes at a time.
struct Outcome {
  Bytes frames;  // encoded again, in order
  std::size_t count = 0;
  Status status;
};

Outcome split(ByteView stream, std::size_t piece) {
  Outcome outcome;
  FrameSplitter splitter;
  for (std::size_t at = 0; at < stream.size && outcome.status.ok(); at += piece) {
    const ByteView bytes(stream.data + at, std::min(piece, stream.size - at));
    outcome.status = splitter.feed(bytes, [&](ControlFrameType type, ByteView body) {
      require(body.size <= device::kMaxFrameBytes, "a frame is bounded");
      const Bytes encoded = device::encode_frame(type, body);
      outcome.frames.insert(outcome.frames.end(), encoded.begin(), encoded.end());
      ++outcome.count;
    });
  }
  return outcome;
}

void run(ByteView input) {
  Script script(input);
  const std::size_t piece = 1 + std::size_t{script.u8()};
  const ByteView stream = script.rest();
  const Outcome whole = split(stream, stream.size + 1);
  const Outcome pieces = split(stream, piece);
  if (!whole.status.ok()) require_refusal(whole.status);
  require(whole.status.code() == pieces.status.code() && whole.count == pieces.count &&
              whole.frames == pieces.frames,
          "frames do not depend on how the stream arrives");
  require(whole.frames.size() <= stream.size &&
              std::equal(whole.frames.begin(), whole.frames.end(), stream.data),
          "the frames are the stream's beginning");
  if (whole.status.ok()) {
    require(stream.size - whole.frames.size() <= device::kFrameHeaderBytes + device::kMaxFrameBytes,
            "at most one frame is kept waiting");
  }
}

Bytes seed(std::uint8_t piece, std::initializer_list<Bytes> parts) {
  return concatenated({{static_cast<std::byte>(piece)}, concatenated(parts)});
}

Seeds seeds() {
  const Bytes ping = device::encode_frame(ControlFrameType::kPing, {});
  const Bytes body(9, std::byte{5});
  const Bytes open = device::encode_frame(ControlFrameType::kOpen, view_of(body));
  Bytes cut = open;
  cut.pop_back();
  Bytes oversized = ping;
  oversized[2] = std::byte{2};  // 128 KiB
  return {{"one", seed(255, {ping})},
          {"several-by-the-byte", seed(0, {ping, open, ping})},
          {"several-in-pieces", seed(6, {open, open, ping})},
          {"incomplete", seed(3, {ping, cut})},
          {"oversized", seed(2, {open, oversized})}};
}

[[maybe_unused]] const bool kAdded = add_target({"frame", run, seeds});

}  // namespace
}  // namespace farwrite::fuzz
