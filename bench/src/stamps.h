// The content of a measured payload, and the receiver's check of it.
//
// A pool is a ramp of 64-bit words: word w of the pool holds kRampStart + w * kRampStep. The sum of
// any part of the ramp is known without a read. The sender replaces the first word of a slot by the
// transfer's number, and the receiver adds up all words. A timed loop thus checks every byte of
// every transfer with one comparison. A second, untimed pass stamps head, tail and every 4 KiB with
// (transfer, place), and detects each stale, misplaced or torn page.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace farwrite::bench {

inline constexpr std::size_t kStampStride = 4096;

inline constexpr std::uint64_t kRampStart = 0x243f6a8885a308d3;
inline constexpr std::uint64_t kRampStep = 0x9e3779b97f4a7c15;

// Fills `bytes` (a multiple of 8) with the ramp, beginning with word `first_word` of the pool.
inline void fill_ramp(std::byte* data, std::size_t bytes, std::uint64_t first_word) {
  std::uint64_t value = kRampStart + first_word * kRampStep;
  for (std::size_t at = 0; at < bytes; at += 8, value += kRampStep) {
    std::memcpy(data + at, &value, 8);
  }
}

// The sum of `words` words of an untouched ramp from `first_word` on, modulo 2^64.
inline std::uint64_t ramp_sum(std::uint64_t first_word, std::uint64_t words) {
  if (words == 0) return 0;
  // n * (n - 1) / 2. The even factor is halved first, because the product can overflow.
  const std::uint64_t pairs =
      words % 2 == 0 ? (words / 2) * (words - 1) : words * ((words - 1) / 2);
  return words * (kRampStart + first_word * kRampStep) + kRampStep * pairs;
}

// The expected sum after word `first_word` was replaced by `transfer`.
inline std::uint64_t numbered_sum(std::uint64_t first_word, std::uint64_t words,
                                  std::uint64_t transfer) {
  return ramp_sum(first_word, words) - (kRampStart + first_word * kRampStep) + transfer;
}

// Reads every byte (`bytes` a multiple of 8) and returns the sum of its 64-bit words. Four
// independent accumulators keep the additions from limiting the loop. The prefetch crosses page
// borders, where the hardware's prefetch stops.
inline std::uint64_t sum_words(const std::byte* data, std::size_t bytes) {
  using Words = std::uint64_t __attribute__((vector_size(16)));
  constexpr std::size_t kStep = 4 * sizeof(Words);
  constexpr std::size_t kPrefetchAhead = 2048;
  const auto load = [data](std::size_t at) {
    Words words;
    std::memcpy(&words, data + at, sizeof(Words));
    return words;
  };
  Words a = {}, b = {}, c = {}, d = {};
  std::size_t at = 0;
  for (; at + kStep <= bytes; at += kStep) {
    __builtin_prefetch(data + at + kPrefetchAhead);  // a prefetch past the end never faults
    a += load(at);
    b += load(at + sizeof(Words));
    c += load(at + 2 * sizeof(Words));
    d += load(at + 3 * sizeof(Words));
  }
  const Words folded = (a + b) + (c + d);
  std::uint64_t total = folded[0] + folded[1];
  for (; at < bytes; at += 8) {
    std::uint64_t word;
    std::memcpy(&word, data + at, 8);
    total += word;
  }
  return total;
}

inline void put_word(std::byte* at, std::uint64_t word) { std::memcpy(at, &word, 8); }

inline std::uint64_t get_word(const std::byte* at) {
  std::uint64_t word;
  std::memcpy(&word, at, 8);
  return word;
}

// Which transfer `data` holds (`bytes` a multiple of 8, and not 0), or -1 if any byte is wrong.
// Transfer i has the number seed << 32 | i in its first word, and is otherwise a copy of the ramp's
// place i % places, which begins `stride` bytes behind the place before.
inline std::int64_t numbered_transfer(const std::byte* data, std::size_t bytes, std::uint32_t seed,
                                      std::uint64_t places, std::uint64_t stride) {
  const std::uint64_t number = get_word(data);
  const std::uint64_t transfer = number & 0xffffffff;
  if (number >> 32 != seed) return -1;
  const std::uint64_t first_word = transfer % places * stride / 8;
  if (sum_words(data, bytes) != numbered_sum(first_word, bytes / 8, number)) return -1;
  return static_cast<std::int64_t>(transfer);
}

// The word stamped at byte `place` of transfer `transfer` (splitmix64's mixer).
inline std::uint64_t stamp_word(std::uint64_t transfer, std::uint64_t place) {
  std::uint64_t x = transfer * 0xff51afd7ed558ccd + place + 1;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// Stamps head, tail and every 4 KiB of a payload; `bytes` is a multiple of 8 and not 0.
inline void stamp(std::byte* data, std::size_t bytes, std::uint64_t transfer) {
  for (std::size_t at = 0; at + 8 <= bytes; at += kStampStride) {
    put_word(data + at, stamp_word(transfer, at));
  }
  put_word(data + bytes - 8, stamp_word(transfer, bytes - 8));
}

// Whether every stamp of `transfer` is in its place.
inline bool verify_stamps(const std::byte* data, std::size_t bytes, std::uint64_t transfer) {
  for (std::size_t at = 0; at + 8 <= bytes; at += kStampStride) {
    if (get_word(data + at) != stamp_word(transfer, at)) return false;
  }
  return get_word(data + bytes - 8) == stamp_word(transfer, bytes - 8);
}

}  // namespace farwrite::bench
