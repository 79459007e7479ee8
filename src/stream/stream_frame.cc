#include "stream/stream_frame.h"

#include <algorithm>

#include "core/fields.h"

namespace farwrite::stream {
namespace {

// Of the reason in a message.
constexpr std::size_t kMostReason = 512;

}  // namespace

template <typename Wire>
void StreamFrame::fields(Wire& wire) {
  wire(kind, stream, value);
  wire.require(kind >= FrameKind::kData && kind <= FrameKind::kBreak, "its kind is unknown");
  if constexpr (Wire::kReads) {
    const bool has_payload = kind == FrameKind::kData || kind == FrameKind::kBegin ||
                             kind == FrameKind::kAbort || kind == FrameKind::kProbe ||
                             kind == FrameKind::kBreak;
    if (has_payload) wire(core::rest(payload));
  }
}

std::vector<std::byte> StreamFrame::head() const { return core::to_bytes(*this); }

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
  return core::from_bytes<StreamFrame>(message, {.operation = "read a stream message"});
}

}  // namespace farwrite::stream
