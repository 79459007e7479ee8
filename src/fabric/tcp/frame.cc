#include "fabric/tcp/frame.h"

#include <string>

#include "core/fields.h"
#include "fabric/fabric.h"

namespace farwrite::fabric::tcp {
namespace {

Status malformed(const std::string& cause) {
  return Status::error(StatusCode::kProtocolError, {"read a tcp frame"}, cause, core::kBrokenRule);
}

// The longest payload of a type; 0 for those that have none.
std::uint64_t longest_payload(FrameType type) {
  switch (type) {
    case FrameType::kWrite:
    case FrameType::kRead:
    case FrameType::kReadReply:
    case FrameType::kCredit:
      return UINT64_MAX;
    case FrameType::kRefused:
    case FrameType::kFlushed:
      return kMaxStatusBytes;
    case FrameType::kMessage:
      return kMaxMessageBytes;
    case FrameType::kRecord:
      return kMaxMessageBytes + kRecordHeadroom;
    case FrameType::kNotify:
    case FrameType::kFlush:
    case FrameType::kEnd:
      break;
  }
  return 0;
}

}  // namespace

template <typename Wire>
void FrameHeader::fields(Wire& wire) {
  wire(type, flags, core::Reserved<2>(), tag, key, offset, length, request);
}

HeaderBytes FrameHeader::to_bytes() const { return core::to_array<kFrameHeaderBytes>(*this); }

Result<FrameHeader> FrameHeader::from_bytes(const std::byte* bytes) {
  core::FieldReader reader({bytes, kFrameHeaderBytes});
  FrameHeader header;
  reader(header);
  const auto of_type = [&] { return std::to_string(static_cast<int>(header.type)); };
  if (header.type < FrameType::kWrite || header.type > FrameType::kEnd) {
    return malformed("unknown frame type " + of_type());
  }
  if (header.flags != 0 && (header.flags != kNotifyFlag || header.type != FrameType::kWrite)) {
    return malformed("unknown flags in a frame of type " + of_type());
  }
  if (header.length > longest_payload(header.type)) {
    return malformed("a frame of type " + of_type() + " announces " +
                     std::to_string(header.length) + " bytes");
  }
  return header;
}

}  // namespace farwrite::fabric::tcp
