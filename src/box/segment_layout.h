// SegmentLayout: the memory in which a server shows the state of one segment, and how its clients
// read it without asking.
//
//      0  u64 version: changes applied to the segment
//      8  u64 current: the row of the current buffer, or kFreed
//     16  u64 epoch: of the version; the two may be of two moments
//     64  kMaxBuffers rows {u64 stamp, u64 buffer, u64 epoch}: a buffer's number is never used
//         twice
//   1600  u64[kMaxBuffers][chunks]: the stamp of each chunk of each row
//
// A stamp is a sequence lock: twice a version, plus one while the bytes change. A reader takes the
// stamp, then the bytes, then the stamp again; the bytes are whole if both are equal and even. The
// stamp of a row counts the segment's version, the stamp of a chunk the changes of that chunk.
//
// A row's stamp guards its epoch as well. When a change gives the row another epoch, the epoch is
// 0 while the stamp goes from the old version to the new one. So a stamp and an epoch that is not 0
// belong together if neither has changed when they are read again, even while the bytes change.
//
// The stamps of a row and of its chunks are odd before its buffer's number changes, and until a
// change has filled the buffer. So a number and an even stamp belong together in the same way.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "box/box.h"

namespace farwrite::box {

struct SegmentLayout {
  static constexpr std::uint64_t kVersionAt = 0;
  static constexpr std::uint64_t kCurrentAt = 8;
  static constexpr std::uint64_t kEpochAt = 16;
  static constexpr std::uint64_t kRowsAt = 64;
  static constexpr std::uint64_t kRowBytes = 24;
  static constexpr std::uint64_t kChunksAt = kRowsAt + kMaxBuffers * kRowBytes;
  // What a client reads at once to know where the bytes are.
  static constexpr std::uint64_t kHeadBytes = kChunksAt;
  static constexpr std::uint64_t kFreed = ~std::uint64_t{0};

  static constexpr std::uint64_t chunks(std::uint64_t bytes) {
    return (bytes + kChunkBytes - 1) / kChunkBytes;
  }
  static constexpr std::uint64_t stamp_at(std::uint64_t row) { return kRowsAt + row * kRowBytes; }
  static constexpr std::uint64_t buffer_at(std::uint64_t row) { return stamp_at(row) + 8; }
  static constexpr std::uint64_t epoch_at(std::uint64_t row) { return stamp_at(row) + 16; }
  static constexpr std::uint64_t chunk_at(std::uint64_t bytes, std::uint64_t row,
                                          std::uint64_t chunk) {
    return kChunksAt + (row * chunks(bytes) + chunk) * 8;
  }
  // Of the whole memory, for a segment of that many bytes.
  static constexpr std::uint64_t size(std::uint64_t bytes) {
    return chunk_at(bytes, kMaxBuffers, 0);
  }

  static constexpr std::uint64_t stamp(std::uint64_t version) { return version << 1; }
  static constexpr std::uint64_t version(std::uint64_t stamp) { return stamp >> 1; }
  static constexpr bool changing(std::uint64_t stamp) { return (stamp & 1) != 0; }
};

// The words of such memory are read and written by several processes: each is one atomic.
inline std::uint64_t load_word(const std::byte* memory, std::uint64_t at) {
  return __atomic_load_n(reinterpret_cast<const std::uint64_t*>(memory + at), __ATOMIC_ACQUIRE);
}
inline void store_word(std::byte* memory, std::uint64_t at, std::uint64_t value) {
  __atomic_store_n(reinterpret_cast<std::uint64_t*>(memory + at), value, __ATOMIC_RELEASE);
}

}  // namespace farwrite::box
