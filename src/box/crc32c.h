// CRC-32C (Castagnoli, RFC 3720), the checksum of snapshot files: against damage, not against an
// adversary.
#pragma once

#include <cstdint>

#include "farwrite/bytes.h"

namespace farwrite::box {

// The checksum of `bytes`. `before` is the checksum of the bytes in front of them, so that a long
// stream is summed in pieces: crc32c(b, crc32c(a)) is the checksum of a and b. Thread-safe.
std::uint32_t crc32c(ByteView bytes, std::uint32_t before = 0);

// The two ways to compute it, which return the same. crc32c() takes the faster one.
std::uint32_t crc32c_by_table(ByteView bytes, std::uint32_t before);
bool has_crc32c_instruction();
// Only where has_crc32c_instruction().
std::uint32_t crc32c_by_instruction(ByteView bytes, std::uint32_t before);

}  // namespace farwrite::box
