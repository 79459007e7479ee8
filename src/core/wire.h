// WireWriter and WireReader: the byte form of everything one process tells another.
//
// Integers are little-endian and unaligned, whatever the machine. A blob is a u32 length and then
// as many bytes. Nothing a peer sends is trusted: the reader never reads out of bounds, whatever
// the input, and its first failure sticks. A decoder therefore reads all its fields in a row and
// asks finish() once at the end, before it believes any of them:
//
//   WireReader reader(message);
//   const std::uint16_t version = reader.u16();
//   const std::string name = reader.string(kMaxNameBytes);
//   FARWRITE_RETURN_IF_ERROR(reader.finish("decode a hello message"));
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "farwrite/bytes.h"
#include "farwrite/status.h"

namespace farwrite::core {

// The remedy where a peer breaks a rule of the wire version on which both sides agreed before.
inline constexpr std::string_view kBrokenRule =
    "both sides agreed on a wire version, so one has a defect: report this with both logs";

// Appends to a growing buffer. Thread-compatible.
class WireWriter {
 public:
  void u8(std::uint8_t value);
  void u16(std::uint16_t value);
  void u32(std::uint32_t value);
  void u64(std::uint64_t value);
  // The bytes as they are, without a length.
  void bytes(ByteView raw);
  // A u32 length, then the bytes. Aborts on 4 GiB or more: such a message is a bug in Farwrite.
  void blob(ByteView content);
  // Same form as blob().
  void string(std::string_view text);

  // Overwrites the four bytes at `offset`, which must have been written: for a length that is known
  // only afterwards. Aborts if they have not been.
  void patch_u32(std::size_t offset, std::uint32_t value);

  std::size_t size() const { return buffer_.size(); }
  const std::vector<std::byte>& buffer() const { return buffer_; }
  ByteView view() const { return {buffer_.data(), buffer_.size()}; }
  // Hands the bytes over and leaves the writer empty.
  std::vector<std::byte> take() { return std::exchange(buffer_, {}); }

 private:
  template <typename Integer>
  void little_endian(Integer value);

  std::vector<std::byte> buffer_;
};

// What finish() makes of bytes after the last field: a newer peer may append fields to a message
// that was designed for it.
enum class TailBytes { kRejected, kAllowed };

// Reads from memory that the caller keeps alive and that nothing else writes: copy what a peer can
// still change into private memory first. Thread-compatible.
class WireReader {
 public:
  explicit WireReader(ByteView input) : input_(input) {}

  // Zero after a failure.
  std::uint8_t u8();
  std::uint16_t u16();
  std::uint32_t u32();
  std::uint64_t u64();

  // The next `count` bytes, or an empty view on failure. The view points into the input.
  ByteView bytes(std::size_t count);
  // A length and that many bytes. A length over `max` or over remaining() fails.
  ByteView blob(std::size_t max);
  // Same form as blob(), copied. May hold any byte, zero included.
  std::string string(std::size_t max);

  // False from the first failure on.
  bool ok() const { return cause_.empty(); }
  // Bytes not read yet. Zero after a failure, so that a loop "while remaining()" ends.
  std::size_t remaining() const { return ok() ? input_.size - position_ : 0; }
  // Bytes read so far; where the failing field starts, after a failure.
  std::size_t position() const { return position_; }

  // kProtocolError if anything failed, or if bytes are left over and not allowed. `operation` is
  // the one the error names: "decode a hello message".
  Status finish(std::string_view operation, TailBytes tail = TailBytes::kRejected) const;

 private:
  template <typename Integer>
  Integer little_endian();
  void fail(std::size_t at, std::string cause) {
    position_ = at;
    cause_ = std::move(cause);
  }

  ByteView input_;
  std::size_t position_ = 0;
  std::string cause_;
};

// Here, because the TensorFlow plug-in reads with these and links none of the library's C++.
inline ByteView WireReader::bytes(std::size_t count) {
  if (!ok()) return {};
  // Never position_ + count: a peer's length may make that wrap around.
  if (count > remaining()) {
    fail(position_, "a field of " + std::to_string(count) + " bytes where " +
                        std::to_string(remaining()) + " are left");
    return {};
  }
  if (count == 0) return {};
  const ByteView view(input_.data + position_, count);
  position_ += count;
  return view;
}

inline ByteView WireReader::blob(std::size_t max) {
  const std::size_t start = position_;
  const ByteView raw = bytes(sizeof(std::uint32_t));
  std::uint32_t length = 0;
  for (std::size_t i = 0; i < raw.size; ++i) {
    length |= std::to_integer<std::uint32_t>(raw.data[i]) << (8 * i);
  }
  if (ok() && length > max) {
    fail(start, "a length of " + std::to_string(length) + " where at most " + std::to_string(max) +
                    " is allowed");
  }
  const ByteView view = bytes(length);
  if (!ok()) position_ = start;
  return view;
}

}  // namespace farwrite::core
