// Frames: {u32 body length, u16 type, body} on the TCP connection between two devices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "core/byte_stream.h"
#include "core/deadline.h"
#include "farwrite/bytes.h"
#include "farwrite/status.h"

namespace farwrite::device {

// The numbers are the wire protocol: never renumber.
enum class ControlFrameType : std::uint16_t {
  // Handshake, in order (handshake.h). REFUSE also ends a channel later.
  kHello = 1,
  kHelloReply = 2,
  kProof = 3,
  kTryFabric = 4,
  kFabricResult = 5,
  kWelcome = 6,
  kRefuse = 7,
  // Control messages (control_messages.h).
  kLookup = 32,
  kOpen = 33,
  kReply = 34,
  kRelease = 35,
  kPing = 36,
  kPong = 37,
  kBye = 38,
  kFin = 39,
};

inline constexpr std::size_t kFrameHeaderBytes = 6;
inline constexpr std::size_t kMaxFrameBytes = 64 * 1024;

struct Frame {
  ControlFrameType type = ControlFrameType::kPing;
  std::vector<std::byte> body;
};

std::vector<std::byte> encode_frame(ControlFrameType type, ByteView body);

// Blocking, for the handshake. not_farwrite() if a length is none of a frame's, kFailedPrecondition
// if a peer that encrypts talks to a plain stream.
Status send_frame(core::ByteStream& stream, ControlFrameType type, ByteView body,
                  core::Deadline deadline, std::string_view operation);
Result<Frame> receive_frame(core::ByteStream& stream, core::Deadline deadline,
                            std::string_view operation);

// The error about bytes that no Farwrite device sends: kProtocolError.
Status not_farwrite(std::string_view operation);

// Cuts a byte stream into frames. Thread-compatible.
class FrameSplitter {
 public:
  // Calls `on_frame` for every frame that `bytes` completes; kProtocolError for an oversized one.
  Status feed(ByteView bytes, const std::function<void(ControlFrameType, ByteView body)>& on_frame);

 private:
  std::vector<std::byte> pending_;
};

}  // namespace farwrite::device
