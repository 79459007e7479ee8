#include "device/frame.h"

#include <string>

#include "core/fields.h"
#include "core/with_memory.h"

namespace farwrite::device {
namespace {

struct ControlFrameHeader {
  std::uint32_t body_bytes = 0;
  ControlFrameType type = ControlFrameType::kPing;

  template <typename Wire>
  void fields(Wire& wire) {
    wire(body_bytes, type);
  }
  static ControlFrameHeader read(const std::byte* bytes) {
    core::FieldReader reader({bytes, kFrameHeaderBytes});
    ControlFrameHeader header;
    reader(header);
    return header;
  }
};

Status oversized(std::uint32_t bytes, std::string_view operation) {
  return Status::error(StatusCode::kProtocolError, {operation},
                       "the peer announced a message of " + std::to_string(bytes) + " bytes",
                       core::kBrokenRule);
}

}  // namespace

Status not_farwrite(std::string_view operation) {
  return Status::error(StatusCode::kProtocolError, {operation},
                       "the other side does not use Farwrite's protocol",
                       "check the address and port: another program listens or connects there");
}

std::vector<std::byte> encode_frame(ControlFrameType type, ByteView body) {
  std::vector<std::byte> frame =
      core::to_bytes(ControlFrameHeader{static_cast<std::uint32_t>(body.size), type});
  if (body.size > 0) frame.insert(frame.end(), body.data, body.data + body.size);
  return frame;
}

Status send_frame(core::ByteStream& stream, ControlFrameType type, ByteView body,
                  core::Deadline deadline, std::string_view operation) {
  const std::vector<std::byte> frame = encode_frame(type, body);
  return core::send_all(stream, {frame.data(), frame.size()}, deadline, operation);
}

Result<Frame> receive_frame(core::ByteStream& stream, core::Deadline deadline,
                            std::string_view operation) {
  std::byte raw[kFrameHeaderBytes];
  FARWRITE_RETURN_IF_ERROR(core::receive_all(stream, {raw, sizeof(raw)}, deadline, operation));
  const auto [body_bytes, type] = ControlFrameHeader::read(raw);
  Frame frame;
  frame.type = type;
  // A TLS record of a handshake: 22, 3, and a version. No frame is that long.
  if (body_bytes > kMaxFrameBytes && (body_bytes & 0xffff) == 0x0316) {
    return Status::error(StatusCode::kFailedPrecondition, {operation},
                         "the peer encrypts and this side does not",
                         "set encrypt on both sides, or on neither");
  }
  if (body_bytes > kMaxFrameBytes) return not_farwrite(operation);
  FARWRITE_RETURN_IF_ERROR(core::with_memory(
      {operation}, "a control message", [&, bytes = body_bytes] { frame.body.resize(bytes); }));
  FARWRITE_RETURN_IF_ERROR(
      core::receive_all(stream, {frame.body.data(), frame.body.size()}, deadline, operation));
  return frame;
}

Status FrameSplitter::feed(ByteView bytes,
                           const std::function<void(ControlFrameType, ByteView body)>& on_frame) {
  FARWRITE_RETURN_IF_ERROR(core::with_memory({"read a control message"}, "a control message", [&] {
    pending_.insert(pending_.end(), bytes.data, bytes.data + bytes.size);
  }));
  std::size_t at = 0;
  while (pending_.size() - at >= kFrameHeaderBytes) {
    const auto [body_bytes, type] = ControlFrameHeader::read(pending_.data() + at);
    if (body_bytes > kMaxFrameBytes) return oversized(body_bytes, "read a control message");
    if (pending_.size() - at - kFrameHeaderBytes < body_bytes) break;
    on_frame(type, {pending_.data() + at + kFrameHeaderBytes, body_bytes});
    at += kFrameHeaderBytes + body_bytes;
  }
  pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(at));
  return Status();
}

}  // namespace farwrite::device
