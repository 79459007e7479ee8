// StreamFrame: what the two ends of a stream tell each other, one channel message each.
//
//   u8 kind, u64 stream, u64 value, then the payload up to the end of the message
//
// Nothing here is trusted: kinds and lengths are checked before anything is made of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "farwrite/bytes.h"
#include "farwrite/status.h"

namespace farwrite::stream {

enum class FrameKind : std::uint8_t {
  kData = 1,    // payload: the next bytes, in the message and in memory lent with it (DataPattern)
  kBegin = 2,   // value: window, payload: u64 message_window of the sender's options
  kCredit = 3,  // value: credit of frames that the program has taken since the last one
  kEnd = 4,     // no more bytes
  kTaken = 5,   // the program has been given everything up to kEnd
  kAbort = 6,   // payload: why, for people
  kProbe = 7,   // value: what kProbed answers; with a payload or lent, which the peer looks at
  kProbed = 8,  // value: of the kProbe
  kBreak = 9,   // payload: why, for people; all streams of the channel end
};

// What a frame of data takes of its sender's credit, beside its bytes in the message: the window
// bounds the frames as well.
inline constexpr std::uint64_t kFrameCredit = 64;

struct StreamFrame {
  static constexpr std::uint64_t kHeadBytes = 17;

  FrameKind kind = FrameKind::kData;
  std::uint64_t stream = 0;
  std::uint64_t value = 0;
  ByteView payload = {};  // a part of the message

  template <typename Wire>
  void fields(Wire& wire);
  // The head alone; the payload is appended behind it.
  std::vector<std::byte> head() const;
  // Of a kAbort or kBreak: the whole message, with the beginning of `reason`.
  std::vector<std::byte> with_reason(const Status& reason) const;
  // What the peer gives as the reason in its kAbort or kBreak.
  std::string reason() const;
  // kProtocolError.
  static Result<StreamFrame> decode(ByteView message);
};

}  // namespace farwrite::stream
