// How a payload is marked by its sender and read by its receiver.
//
// A payload is one stream of bytes, wherever its buffers begin. The byte at every 4 KiB of the
// stream, and its last byte, hold a mark that depends on the call and on the place. The first byte
// holds the call's number itself. gRPC may cut the stream anywhere, so a mark is a single byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

inline constexpr std::size_t kStride = 4096;

// The mark of call `call` at byte `place` of the stream; `call` itself at place 0.
inline std::uint8_t mark(std::uint8_t call, std::size_t place) {
  return static_cast<std::uint8_t>(call + ((place * 0x9e3779b97f4a7c15) >> 56));
}

// Writes the marks of the piece of the stream that begins at byte `place`.
inline void write_marks(std::span<std::uint8_t> piece, std::size_t place, std::size_t total,
                        std::uint8_t call) {
  const std::size_t first = (place + kStride - 1) / kStride * kStride;
  for (std::size_t at = first; at < place + piece.size(); at += kStride) {
    piece[at - place] = mark(call, at);
  }
  if (!piece.empty() && place + piece.size() == total) piece.back() = mark(call, total - 1);
}

// Reads every cache line of a payload, piece by piece, and checks its marks.
class Reader {
 public:
  explicit Reader(std::size_t total) : total_(total) {}

  void read(std::span<const std::uint8_t> piece);

  // Whether all bytes came and every mark belongs to the same call.
  bool is_whole() const { return is_right_ && place_ == total_; }
  // The number of that call.
  std::uint8_t call() const { return call_; }

 private:
  std::size_t total_;
  std::size_t place_ = 0;
  std::uint8_t call_ = 0;
  bool is_right_ = true;
};
