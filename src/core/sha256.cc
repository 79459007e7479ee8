#include "core/sha256.h"

#include <sys/random.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace farwrite::core {
namespace {

constexpr std::size_t kBlockBytes = 64;
using Block = std::array<std::byte, kBlockBytes>;

// FIPS 180-4, section 4.2.2.
constexpr std::array<std::uint32_t, 64> kRoundConstants = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

// Takes a message in pieces, so that HMAC need not join a key and a message in memory.
class Hasher {
 public:
  void update(ByteView input) {
    total_bytes_ += input.size;
    while (input.size > 0) {
      const std::size_t taken = std::min(input.size, kBlockBytes - filled_);
      std::memcpy(block_.data() + filled_, input.data, taken);
      filled_ += taken;
      input = ByteView(input.data + taken, input.size - taken);
      if (filled_ == kBlockBytes) {
        compress();
        filled_ = 0;
      }
    }
  }

  // Section 5.1.1: a one bit, zeros, and the length in bits at the end of a block.
  Digest finish() {
    const std::uint64_t total_bits = total_bytes_ * 8;
    block_[filled_++] = std::byte{0x80};
    if (filled_ > kBlockBytes - sizeof total_bits) {
      std::fill(block_.begin() + filled_, block_.end(), std::byte{0});
      compress();
      filled_ = 0;
    }
    std::fill(block_.begin() + filled_, block_.end(), std::byte{0});
    for (std::size_t i = 0; i < sizeof total_bits; ++i) {
      block_[kBlockBytes - 1 - i] = static_cast<std::byte>(total_bits >> (8 * i));
    }
    compress();
    Digest digest;
    for (std::size_t i = 0; i < digest.size(); ++i) {
      digest[i] = static_cast<std::byte>(state_[i / 4] >> (24 - 8 * (i % 4)));
    }
    return digest;
  }

 private:
  // Section 6.2.2, with the standard's names.
  void compress() {
    std::array<std::uint32_t, 64> w;
    for (std::size_t t = 0; t < 16; ++t) {
      w[t] = 0;
      for (std::size_t i = 0; i < 4; ++i) {
        w[t] = w[t] << 8 | std::to_integer<std::uint32_t>(block_[4 * t + i]);
      }
    }
    for (std::size_t t = 16; t < 64; ++t) {
      const std::uint32_t s0 =
          std::rotr(w[t - 15], 7) ^ std::rotr(w[t - 15], 18) ^ (w[t - 15] >> 3);
      const std::uint32_t s1 = std::rotr(w[t - 2], 17) ^ std::rotr(w[t - 2], 19) ^ (w[t - 2] >> 10);
      w[t] = s1 + w[t - 7] + s0 + w[t - 16];
    }
    auto [a, b, c, d, e, f, g, h] = state_;
    for (std::size_t t = 0; t < 64; ++t) {
      const std::uint32_t sum1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
      const std::uint32_t choice = (e & f) ^ (~e & g);
      const std::uint32_t t1 = h + sum1 + choice + kRoundConstants[t] + w[t];
      const std::uint32_t sum0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
      const std::uint32_t majority = (a & b) ^ (a & c) ^ (b & c);
      const std::uint32_t t2 = sum0 + majority;
      h = g;
      g = f;
      f = e;
      e = d + t1;
      d = c;
      c = b;
      b = a;
      a = t1 + t2;
    }
    const std::array<std::uint32_t, 8> added = {a, b, c, d, e, f, g, h};
    for (std::size_t i = 0; i < state_.size(); ++i) state_[i] += added[i];
  }

  std::array<std::uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  Block block_{};
  std::size_t filled_ = 0;
  std::uint64_t total_bytes_ = 0;
};

Block xor_with(const Block& block, std::byte pad) {
  Block result = block;
  for (std::byte& byte : result) byte ^= pad;
  return result;
}

}  // namespace

Digest sha256(ByteView message) {
  Hasher hasher;
  hasher.update(message);
  return hasher.finish();
}

Digest hmac_sha256(ByteView key, ByteView message) {
  Block padded_key{};
  if (key.size > kBlockBytes) {
    const Digest hashed_key = sha256(key);
    std::copy(hashed_key.begin(), hashed_key.end(), padded_key.begin());
  } else {
    std::copy_n(key.data, key.size, padded_key.begin());
  }
  const Block inner_key = xor_with(padded_key, std::byte{0x36});
  const Block outer_key = xor_with(padded_key, std::byte{0x5c});

  Hasher inner;
  inner.update({inner_key.data(), inner_key.size()});
  inner.update(message);
  const Digest inner_digest = inner.finish();

  Hasher outer;
  outer.update({outer_key.data(), outer_key.size()});
  outer.update({inner_digest.data(), inner_digest.size()});
  return outer.finish();
}

bool constant_time_equal(ByteView left, ByteView right) {
  if (left.size != right.size) return false;
  // Volatile keeps the compiler from leaving the loop at the first difference.
  volatile unsigned char difference = 0;
  for (std::size_t i = 0; i < left.size; ++i) {
    difference = difference | std::to_integer<unsigned char>(left.data[i] ^ right.data[i]);
  }
  return difference == 0;
}

void random_bytes(MutableByteView out) {
  while (out.size > 0) {
    const ssize_t got = ::getrandom(out.data, out.size, 0);
    if (got < 0) {
      if (errno == EINTR) continue;
      std::fprintf(stderr,
                   "farwrite: getrandom failed (errno %d); allow the getrandom system call in this "
                   "process's sandbox\n",
                   errno);
      std::abort();
    }
    out = MutableByteView(out.data + got, out.size - static_cast<std::size_t>(got));
  }
}

}  // namespace farwrite::core
