// The frame headers of the tcp fabric.
#include <algorithm>
#include <array>

#include "fabric/fabric.h"
#include "fabric/tcp/frame.h"
#include "target.h"

namespace farwrite::fuzz {
namespace {

using fabric::tcp::FrameHeader;
using fabric::tcp::FrameType;
using fabric::tcp::HeaderBytes;

bool carries_bulk(FrameType type) {
  return type == FrameType::kWrite || type == FrameType::kReadReply;
}

void run(ByteView input) {
  if (input.size < fabric::tcp::kFrameHeaderBytes) return;
  auto header = FrameHeader::from_bytes(input.data);
  if (!header.ok()) return require_refusal(header.status());
  if (!carries_bulk(header->type)) {
    // What the receiver buffers before it has looked any further.
    require(header->payload_bytes() <= fabric::tcp::kMaxMessageBytes + fabric::kRecordHeadroom,
            "a payload that is kept is bounded");
  }
  require(header->flags == 0 || header->type == FrameType::kWrite, "only a write is flagged");
  const HeaderBytes encoded = header->to_bytes();
  HeaderBytes plain;
  std::copy_n(input.data, plain.size(), plain.begin());
  plain[2] = plain[3] = std::byte{0};  // reserved
  require(encoded == plain, "decode and encode give the same bytes");
  require(FrameHeader::from_bytes(encoded.data()).ok(), "what we encode can be decoded");
}

Seeds seeds() {
  Seeds all;
  for (std::uint8_t type = 1; type <= static_cast<std::uint8_t>(FrameType::kEnd); ++type) {
    FrameHeader header;
    header.type = static_cast<FrameType>(type);
    header.tag = 7;
    header.key = 1;
    header.offset = 64;
    header.request = 2;
    const bool empty = header.type == FrameType::kNotify || header.type == FrameType::kFlush ||
                       header.type == FrameType::kEnd;
    header.length = empty ? 0 : 4096;
    if (header.type == FrameType::kWrite) header.flags = fabric::tcp::kNotifyFlag;
    const HeaderBytes bytes = header.to_bytes();
    all["type-" + std::to_string(type)] = Bytes(bytes.begin(), bytes.end());
  }
  return all;
}

[[maybe_unused]] const bool kAdded = add_target({"tcp_frame", run, seeds});

}  // namespace
}  // namespace farwrite::fuzz
