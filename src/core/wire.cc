#include "core/wire.h"

#include <cstdio>
#include <cstdlib>
#include <limits>
#include <type_traits>

namespace farwrite::core {
namespace {

constexpr std::size_t kShort = 96;

[[noreturn]] void die(const char* what) {
  std::fprintf(stderr, "farwrite: wire writer: %s\n", what);
  std::abort();
}

// Shifts rather than memcpy, so that the byte order does not depend on the machine's. Compilers
// turn the loops into one move on little-endian machines.
template <typename Integer>
void store(std::byte* to, Integer value) {
  for (std::size_t i = 0; i < sizeof(Integer); ++i) {
    to[i] = static_cast<std::byte>(static_cast<std::uint64_t>(value) >> (8 * i));
  }
}

template <typename Integer>
Integer load(const std::byte* from) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < sizeof(Integer); ++i) {
    value |= static_cast<std::uint64_t>(from[i]) << (8 * i);
  }
  return static_cast<Integer>(value);
}

}  // namespace

template <typename Integer>
void WireWriter::little_endian(Integer value) {
  static_assert(std::is_unsigned_v<Integer>);
  const std::size_t at = buffer_.size();
  buffer_.resize(at + sizeof(Integer));
  store(buffer_.data() + at, value);
}

void WireWriter::u8(std::uint8_t value) { little_endian(value); }
void WireWriter::u16(std::uint16_t value) { little_endian(value); }
void WireWriter::u32(std::uint32_t value) { little_endian(value); }
void WireWriter::u64(std::uint64_t value) { little_endian(value); }

void WireWriter::bytes(ByteView raw) {
  if (raw.size == 0) return;  // a null pointer is no valid range, not even an empty one
  // Most messages are short: one allocation, and not one for every doubling.
  if (buffer_.capacity() == 0) buffer_.reserve(kShort);
  buffer_.insert(buffer_.end(), raw.data, raw.data + raw.size);
}

void WireWriter::blob(ByteView content) {
  if (content.size > std::numeric_limits<std::uint32_t>::max()) die("a blob of 4 GiB or more");
  u32(static_cast<std::uint32_t>(content.size));
  bytes(content);
}

void WireWriter::string(std::string_view text) { blob({text.data(), text.size()}); }

void WireWriter::patch_u32(std::size_t offset, std::uint32_t value) {
  if (buffer_.size() < sizeof value || offset > buffer_.size() - sizeof value) {
    die("patch_u32 outside the written bytes");
  }
  store(buffer_.data() + offset, value);
}

template <typename Integer>
Integer WireReader::little_endian() {
  const ByteView raw = bytes(sizeof(Integer));
  return raw.size == 0 ? Integer{0} : load<Integer>(raw.data);
}

std::uint8_t WireReader::u8() { return little_endian<std::uint8_t>(); }
std::uint16_t WireReader::u16() { return little_endian<std::uint16_t>(); }
std::uint32_t WireReader::u32() { return little_endian<std::uint32_t>(); }
std::uint64_t WireReader::u64() { return little_endian<std::uint64_t>(); }

std::string WireReader::string(std::size_t max) {
  const ByteView view = blob(max);
  return std::string(reinterpret_cast<const char*>(view.data), view.size);
}

Status WireReader::finish(std::string_view operation, TailBytes tail) const {
  std::string cause = cause_;
  if (ok()) {
    if (remaining() == 0 || tail == TailBytes::kAllowed) return Status();
    cause = std::to_string(remaining()) + " bytes too many";
  }
  return Status::error(
      StatusCode::kProtocolError, {.operation = operation},
      cause + " at byte " + std::to_string(position_) + " of " + std::to_string(input_.size),
      "check that the peer is a Farwrite device of a matching version");
}

}  // namespace farwrite::core
