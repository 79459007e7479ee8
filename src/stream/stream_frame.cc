#include "stream/stream_frame.h"

#include <algorithm>

#include "core/wire.h"

namespace farwrite::stream {
namespace {

// Of the reason in a message.
constexpr std::size_t kMostReason = 512;

}  // namespace

std::vector<std::byte> StreamFrame::head() const {
  core::WireWriter writer;
  writer.u8(static_cast<std::uint8_t>(kind));
  writer.u64(stream);
  writer.u64(value);
  return writer.take();
}

std::vector<std::byte> StreamFrame::with_reason(const Status& reason) const {
  std::vector<std::byte> message = head();
  const std::string why = reason.message().substr(0, kMostReason);
  const auto* const text = reinterpret_cast<const std::byte*>(why.data());
  message.insert(message.end(), text, text + why.size());
  return message;
}

std::string StreamFrame::reason() const {
  return {reinterpret_cast<const char*>(payload.data), std::min(payload.size, kMostReason)};
}

Result<StreamFrame> StreamFrame::decode(ByteView message) {
  constexpr std::string_view kOperation = "read a stream message";
  core::WireReader reader(message);
  StreamFrame frame;
  frame.kind = static_cast<FrameKind>(reader.u8());
  frame.stream = reader.u64();
  frame.value = reader.u64();
  const bool has_payload = frame.kind == FrameKind::kData || frame.kind == FrameKind::kBegin ||
                           frame.kind == FrameKind::kAbort || frame.kind == FrameKind::kProbe ||
                           frame.kind == FrameKind::kBreak;
  if (has_payload) frame.payload = reader.bytes(reader.remaining());
  FARWRITE_RETURN_IF_ERROR(reader.finish(kOperation));
  if (frame.kind < FrameKind::kData || frame.kind > FrameKind::kBreak) {
    return Status::error(StatusCode::kProtocolError, {.operation = kOperation},
                         "its kind is unknown", "run the same release on both sides");
  }
  return frame;
}

}  // namespace farwrite::stream
