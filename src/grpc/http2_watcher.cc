#include "grpc/http2_watcher.h"

#include <algorithm>
#include <string_view>

namespace farwrite::grpc {
namespace {

constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

// RFC 9113, section 6.
constexpr std::uint8_t kHeaders = 0x1;
constexpr std::uint8_t kSettingsType = 0x4;
constexpr std::uint8_t kPushPromise = 0x5;
constexpr std::uint8_t kGoawayType = 0x7;
constexpr std::uint8_t kContinuation = 0x9;
constexpr std::uint8_t kAckFlag = 0x1;
constexpr std::uint8_t kEndHeadersFlag = 0x4;
constexpr std::uint32_t kSettingBytes = 6;
constexpr std::uint32_t kMaxSettingsBytes = 16384;

}  // namespace

ByteView Http2Watcher::payload() const {
  return {reinterpret_cast<const std::byte*>(payload_.data()), payload_.size()};
}

std::size_t Http2Watcher::next(ByteView bytes, Event& event) {
  const auto* const data = reinterpret_cast<const std::uint8_t*>(bytes.data);
  std::size_t at = 0;
  event = Event::kNone;
  while (at < bytes.size && event == Event::kNone) {
    switch (state_) {
      case State::kStart:
        state_ = data[at] == static_cast<std::uint8_t>(kPreface.front()) ? State::kPreface
                                                                         : State::kHead;
        break;
      case State::kPreface:
        if (data[at] != static_cast<std::uint8_t>(kPreface[preface_bytes_])) {
          state_ = State::kNotHttp2;
          break;
        }
        ++at;
        if (++preface_bytes_ == kPreface.size()) {
          has_preface_ = true;
          state_ = State::kHead;
        }
        break;
      case State::kHead:
        head_[head_bytes_++] = data[at++];
        if (head_bytes_ == kFrameHeadBytes) event = begin_frame();
        break;
      case State::kPayload: {
        const std::size_t taken = std::min<std::size_t>(left_, bytes.size - at);
        if (head_[3] == kUpgradeFrameType) {
          payload_.append(reinterpret_cast<const char*>(data) + at, taken);
        }
        left_ -= static_cast<std::uint32_t>(taken);
        at += taken;
        if (left_ == 0) event = end_frame();
        break;
      }
      case State::kNotHttp2:
        event = Event::kNotHttp2;
        break;
    }
  }
  return event == Event::kNotHttp2 ? bytes.size : at;
}

Http2Watcher::Event Http2Watcher::begin_frame() {
  left_ = (std::uint32_t{head_[0]} << 16) | (std::uint32_t{head_[1]} << 8) | head_[2];
  const bool is_settings = head_[3] == kSettingsType && left_ <= kMaxSettingsBytes &&
                           left_ % kSettingBytes == 0 && (head_[4] & kAckFlag) == 0;
  // Each side's first frame is SETTINGS: anything else is another protocol.
  const bool is_upgrade = head_[3] == kUpgradeFrameType;
  if ((!settings_passed_ && !is_settings) || (is_upgrade && left_ > kMaxUpgradeBytes)) {
    state_ = State::kNotHttp2;
    return Event::kNotHttp2;
  }
  payload_.clear();
  state_ = State::kPayload;
  return left_ == 0 ? end_frame() : Event::kNone;
}

Http2Watcher::Event Http2Watcher::end_frame() {
  state_ = State::kHead;
  head_bytes_ = 0;
  const std::uint8_t type = head_[3];
  const std::uint8_t flags = head_[4];
  if (type == kHeaders || type == kPushPromise || type == kContinuation) {
    in_header_block_ = (flags & kEndHeadersFlag) == 0;
  }
  if (type == kUpgradeFrameType) return Event::kUpgrade;
  if (type == kGoawayType) return Event::kGoaway;
  if (type != kSettingsType) return Event::kFrame;
  if ((flags & kAckFlag) != 0) return Event::kSettingsAck;
  settings_passed_ = true;
  return Event::kSettings;
}

}  // namespace farwrite::grpc
