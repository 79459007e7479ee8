// SHA-256 (FIPS 180-4), HMAC-SHA-256 (RFC 2104, RFC 4231) and the kernel's random bytes.
//
// Our own code because the core must not link anything: one wheel serves machines with any OpenSSL
// or with none. It serves the proof of the token at connect time, about a hundred bytes for each
// peer; it is not meant for bulk data. All functions are thread-safe.
#pragma once

#include <array>
#include <cstddef>

#include "farwrite/bytes.h"

namespace farwrite::core {

using Digest = std::array<std::byte, 32>;

Digest sha256(ByteView message);

// A key of any length; one longer than 64 bytes is hashed first, as the RFC says.
Digest hmac_sha256(ByteView key, ByteView message);

// Takes the same time wherever the first difference is, so that a peer cannot guess a proof byte by
// byte. Different sizes are unequal, and that much may be told from the time.
bool constant_time_equal(ByteView left, ByteView right);

// Fills `out` from getrandom(2). Aborts with a message if the kernel refuses: keys and nonces that
// can be guessed are worse than no process.
void random_bytes(MutableByteView out);

}  // namespace farwrite::core
