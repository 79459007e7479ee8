#include "stream/stream_frame.h"

#include "core/wire.h"

namespace farwrite::stream {

std::vector<std::byte> StreamFrame::head() const {
  core::WireWriter writer;
  writer.u8(static_cast<std::uint8_t>(kind));
  writer.u64(stream);
  writer.u64(value);
  return writer.take();
}

Result<StreamFrame> StreamFrame::decode(ByteView message) {
  constexpr std::string_view kOperation = "read a stream message";
  core::WireReader reader(message);
  StreamFrame frame;
  frame.kind = static_cast<FrameKind>(reader.u8());
  frame.stream = reader.u64();
  frame.value = reader.u64();
  const bool has_payload = frame.kind == FrameKind::kData || frame.kind == FrameKind::kAbort ||
                           frame.kind == FrameKind::kProbe;
  if (has_payload) frame.payload = reader.bytes(reader.remaining());
  FARWRITE_RETURN_IF_ERROR(reader.finish(kOperation));
  const bool known = frame.kind == FrameKind::kData ||
                     (frame.kind >= FrameKind::kCredit && frame.kind <= FrameKind::kProbed);
  if (!known) {
    return Status::error(StatusCode::kProtocolError, {.operation = kOperation},
                         "its kind is unknown", "run the same release on both sides");
  }
  return frame;
}

}  // namespace farwrite::stream
