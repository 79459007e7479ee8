// What decoders are fed in tests: every truncation of good bytes, and noise.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <random>
#include <vector>

#include "farwrite/bytes.h"
#include "farwrite/status.h"

namespace farwrite {

inline ByteView view_of(const std::vector<std::byte>& bytes) {
  return {bytes.data(), bytes.size()};
}

// `decode(ByteView)` returns a Status or a Result. Every proper prefix of `good` must be refused;
// the copy is exact, so that AddressSanitizer sees a read past its end.
template <typename Decode>
void expect_truncations_refused(const std::vector<std::byte>& good, Decode decode) {
  for (std::size_t length = 0; length < good.size(); ++length) {
    const std::vector<std::byte> prefix(good.begin(),
                                        good.begin() + static_cast<std::ptrdiff_t>(length));
    EXPECT_FALSE(decode(view_of(prefix)).ok()) << "the first " << length << " of " << good.size();
  }
}

// Noise, and `good` with some bytes changed: anything may come out, except a crash.
template <typename Decode>
void survive_noise(const std::vector<std::byte>& good, Decode decode) {
  std::mt19937 random(20240521);
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::byte> bytes = good;
    if (round % 2 == 0) bytes.resize(random() % 200);
    const std::size_t changes = round % 2 == 0 ? bytes.size() : 1 + random() % 4;
    for (std::size_t i = 0; i < changes && !bytes.empty(); ++i) {
      const std::size_t at = round % 2 == 0 ? i : random() % bytes.size();
      bytes[at] = static_cast<std::byte>(random());
    }
    (void)decode(view_of(bytes)).ok();
  }
}

}  // namespace farwrite
