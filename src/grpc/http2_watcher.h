// Http2Watcher: follows the frames of one direction of an HTTP/2 connection, and changes nothing.
//
// It finds the places where a frame of ours may be put, and the frames that a peer's Farwrite put.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "farwrite/bytes.h"

namespace farwrite::grpc {

// The type of our frames. A peer without Farwrite ignores frames of unknown types (RFC 9113, 4.1).
inline constexpr std::uint8_t kUpgradeFrameType = 0xfa;
inline constexpr std::size_t kFrameHeadBytes = 9;
// Of the payload of an upgrade frame.
inline constexpr std::size_t kMaxUpgradeBytes = 1024;

// Thread-compatible. The bytes are a peer's: nothing in them is trusted.
class Http2Watcher {
 public:
  enum class Event : std::uint8_t {
    kNone,         // the end of the bytes
    kNotHttp2,     // this is no HTTP/2 connection: TLS, HTTP/1, something else
    kSettings,     // a complete SETTINGS frame
    kSettingsAck,  // the confirmation of the peer's SETTINGS
    kGoaway,       // a complete GOAWAY frame
    kUpgrade,      // a complete frame of ours; see payload()
    kFrame,        // another complete frame
  };

  // Looks at bytes up to the end of the next frame. Returns how many it has looked at: all of them
  // with kNone.
  std::size_t next(ByteView bytes, Event& event);

  // The direction began with the preface of an HTTP/2 client.
  bool has_preface() const { return has_preface_; }
  // A frame of ours may be put here: SETTINGS has passed, and no header block is open.
  bool takes_frames() const { return settings_passed_ && head_bytes_ == 0 && !in_header_block_; }
  // Of the last kUpgrade.
  ByteView payload() const;

 private:
  enum class State : std::uint8_t { kStart, kPreface, kHead, kPayload, kNotHttp2 };

  Event begin_frame();
  Event end_frame();

  State state_ = State::kStart;
  bool has_preface_ = false;
  bool settings_passed_ = false;
  bool in_header_block_ = false;
  std::size_t preface_bytes_ = 0;
  std::size_t head_bytes_ = 0;  // of the frame that has begun
  std::array<std::uint8_t, kFrameHeadBytes> head_{};
  std::uint32_t left_ = 0;  // bytes of the payload
  std::string payload_;
};

}  // namespace farwrite::grpc
