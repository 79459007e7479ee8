// Frames of the tcp fabric: what travels on one lane's connection, in order.
//
//   0 u8 type   1 u8 flags   2 u16 0   4 u32 tag   8 u64 key   16 u64 offset   24 u64 length
//   32 u64 request   40 payload, `length` bytes
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "farwrite/bytes.h"
#include "farwrite/status.h"

namespace farwrite::fabric::tcp {

// The numbers are the wire protocol: never renumber.
enum class FrameType : std::uint8_t {
  kWrite = 1,      // payload -> key + offset; raises `tag` behind it if flagged
  kRead = 2,       // asks for `length` bytes at key + offset; no payload
  kReadReply = 3,  // payload: the bytes of `request`
  kRefused = 4,    // payload: why there is no reply to `request`, a Status
  kNotify = 5,     // raises `tag`
  kMessage = 6,    // payload and `tag`, for the user
  kRecord = 7,     // payload and `tag`, for the device layer
  kFlush = 8,      // answer `request` once everything before it on this lane is applied
  kFlushed = 9,    // payload: why an earlier write was refused, a Status; empty if none was
  kCredit = 10,    // the sender of notifications may send `length` more bytes of them
  kEnd = 11,       // nothing that asks for anything follows
};

inline constexpr std::size_t kFrameHeaderBytes = 40;
inline constexpr std::uint8_t kNotifyFlag = 1;  // of kWrite
inline constexpr std::uint64_t kMaxMessageBytes = 64 * 1024;
inline constexpr std::uint64_t kMaxStatusBytes = 8 * 1024;
// Reads that one side may have under way on a lane; the other side ends the link past it.
inline constexpr std::uint64_t kMaxReadsUnderWay = 1024;

// What a notification, message or record costs of its receiver's credit. At the start of a lane
// each side may send kCreditWindow bytes of them.
inline constexpr std::uint64_t kNotificationCost = 64;
inline constexpr std::uint64_t kCreditWindow = std::uint64_t{1} << 20;

using HeaderBytes = std::array<std::byte, kFrameHeaderBytes>;

struct FrameHeader {
  FrameType type = FrameType::kNotify;
  std::uint8_t flags = 0;
  std::uint32_t tag = 0;
  std::uint64_t key = 0;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  std::uint64_t request = 0;

  // Bytes that follow the header.
  std::uint64_t payload_bytes() const {
    return type == FrameType::kRead || type == FrameType::kCredit ? 0 : length;
  }
  template <typename Wire>
  void fields(Wire& wire);
  HeaderBytes to_bytes() const;
  // kProtocolError for an unknown type, an unknown flag, or a payload longer than its type may
  // have. `bytes` holds kFrameHeaderBytes.
  static Result<FrameHeader> from_bytes(const std::byte* bytes);
};

}  // namespace farwrite::fabric::tcp
