#include "fabric/tcp/frame.h"

#include <string>

#include "core/wire.h"
#include "fabric/fabric.h"

namespace farwrite::fabric::tcp {
namespace {

Status malformed(const std::string& cause) {
  return Status::error(StatusCode::kProtocolError, {"read a tcp frame"}, cause, core::kBrokenRule);
}

template <typename Integer>
std::byte* put(std::byte* at, Integer value) {
  for (std::size_t i = 0; i < sizeof(Integer); ++i) {
    at[i] = static_cast<std::byte>(value >> (8 * i));
  }
  return at + sizeof(Integer);
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

HeaderBytes FrameHeader::to_bytes() const {
  HeaderBytes bytes;
  std::byte* at = bytes.data();
  at = put(at, static_cast<std::uint8_t>(type));
  at = put(at, flags);
  at = put(at, std::uint16_t{0});
  at = put(at, tag);
  at = put(at, key);
  at = put(at, offset);
  at = put(at, length);
  put(at, request);
  return bytes;
}

Result<FrameHeader> FrameHeader::from_bytes(const std::byte* bytes) {
  core::WireReader reader({bytes, kFrameHeaderBytes});
  const std::uint8_t type = reader.u8();
  if (type < static_cast<std::uint8_t>(FrameType::kWrite) ||
      type > static_cast<std::uint8_t>(FrameType::kEnd)) {
    return malformed("unknown frame type " + std::to_string(type));
  }
  FrameHeader header;
  header.type = static_cast<FrameType>(type);
  header.flags = reader.u8();
  (void)reader.u16();
  header.tag = reader.u32();
  header.key = reader.u64();
  header.offset = reader.u64();
  header.length = reader.u64();
  header.request = reader.u64();
  if (header.flags != 0 && (header.flags != kNotifyFlag || header.type != FrameType::kWrite)) {
    return malformed("unknown flags in a frame of type " + std::to_string(type));
  }
  if (header.length > longest_payload(header.type)) {
    return malformed("a frame of type " + std::to_string(type) + " announces " +
                     std::to_string(header.length) + " bytes");
  }
  return header;
}

}  // namespace farwrite::fabric::tcp
