#include "box/crc32c.h"

#include <array>
#include <cstring>

#include "core/processor.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace farwrite::box {
namespace {

constexpr std::uint32_t kReflectedPolynomial = 0x82f63b78;
constexpr std::size_t kWord = 8;

using Tables = std::array<std::array<std::uint32_t, 256>, kWord>;

// Table k holds what a byte adds to the checksum when k bytes follow it: eight bytes are then eight
// independent look-ups ("slicing by 8", Kounavis and Berry).
constexpr Tables make_tables() {
  Tables tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t sum = byte;
    for (int bit = 0; bit < 8; ++bit) sum = sum >> 1 ^ ((sum & 1) != 0 ? kReflectedPolynomial : 0);
    tables[0][byte] = sum;
  }
  for (std::size_t k = 1; k < kWord; ++k) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t sum = tables[k - 1][byte];
      tables[k][byte] = sum >> 8 ^ tables[0][sum & 0xff];
    }
  }
  return tables;
}

constexpr Tables kTables = make_tables();

// Shifts, so that the result does not depend on the machine's byte order.
std::uint64_t load_word(const std::byte* from) {
  std::uint64_t word = 0;
#pragma GCC unroll 8
  for (std::size_t i = 0; i < kWord; ++i) word |= static_cast<std::uint64_t>(from[i]) << (8 * i);
  return word;
}

using Sum = std::uint32_t (*)(ByteView, std::uint32_t);

Sum fastest() { return has_crc32c_instruction() ? crc32c_by_instruction : crc32c_by_table; }

}  // namespace

std::uint32_t crc32c_by_table(ByteView bytes, std::uint32_t before) {
  std::uint32_t sum = ~before;
  std::size_t at = 0;
  for (; bytes.size - at >= kWord; at += kWord) {
    const std::uint64_t word = load_word(bytes.data + at) ^ sum;
    sum = 0;
#pragma GCC unroll 8
    for (std::size_t i = 0; i < kWord; ++i) sum ^= kTables[kWord - 1 - i][word >> (8 * i) & 0xff];
  }
  for (; at < bytes.size; ++at) {
    sum = sum >> 8 ^ kTables[0][(sum ^ std::to_integer<std::uint32_t>(bytes.data[at])) & 0xff];
  }
  return ~sum;
}

#if defined(__x86_64__)

bool has_crc32c_instruction() { return core::processor_features().sse42; }

// One chain of additions, 8 bytes in 3 cycles: faster than memory on the machines of today.
__attribute__((target("sse4.2,crc32"))) std::uint32_t crc32c_by_instruction(ByteView bytes,
                                                                            std::uint32_t before) {
  std::uint64_t sum = ~before;
  std::size_t at = 0;
  for (; bytes.size - at >= kWord; at += kWord) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data + at, kWord);
    sum = _mm_crc32_u64(sum, word);
  }
  auto narrow = static_cast<std::uint32_t>(sum);
  for (; at < bytes.size; ++at) {
    narrow = _mm_crc32_u8(narrow, std::to_integer<std::uint8_t>(bytes.data[at]));
  }
  return ~narrow;
}

#else

bool has_crc32c_instruction() { return false; }
std::uint32_t crc32c_by_instruction(ByteView bytes, std::uint32_t before) {
  return crc32c_by_table(bytes, before);
}

#endif

std::uint32_t crc32c(ByteView bytes, std::uint32_t before) {
  static const Sum chosen = fastest();
  return chosen(bytes, before);
}

}  // namespace farwrite::box
