// Stage: one shared mapping in which two measuring processes meet and the raw loops run.
//
// It belongs to the benchmark and not to Farwrite: Python makes the memfd and passes it to the
// child.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "farwrite/status.h"

namespace farwrite::bench {

inline constexpr std::uint32_t kMaxLanes = 16;
inline constexpr std::uint64_t kEchoBytes = std::uint64_t{1} << 20;
inline constexpr std::size_t kMaxOneWaySamples = 4096;

// The physical limit of a signal: a counter and an 8-byte payload in one cache line. The lines are
// 128 bytes apart, because processors fetch lines in pairs.
struct alignas(128) RawLine {
  std::atomic<std::uint32_t> produced;
  std::atomic<std::uint32_t> sleeping;  // the consumer waits on `produced`, or is about to
  std::uint64_t payload;
};

// Thread-safe. Only the benchmark trusts its content.
class Stage {
 public:
  // Bytes of memfd that a stage with a pool of `pool_bytes` needs.
  static std::uint64_t bytes_for(std::uint64_t pool_bytes);
  // Maps and prefaults the memfd; the caller keeps `fd`.
  static Result<std::unique_ptr<Stage>> map(int fd, std::uint64_t pool_bytes);
  ~Stage();
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  // Waits until the other process also calls it. Fails after 60 s, or when either side gave up.
  Status meet();
  // Ends all waits of both processes with an error.
  void give_up();
  bool given_up() const;

  RawLine& to_receiver(std::uint32_t lane) const;
  RawLine& to_sender(std::uint32_t lane) const;
  // The time at which the sender began transfer `sample`, in CLOCK_MONOTONIC nanoseconds.
  std::int64_t& began(std::size_t sample) const;
  std::byte* echo() const;  // kEchoBytes that the receiver writes
  std::byte* pool() const { return pool_; }
  std::uint64_t pool_bytes() const { return pool_bytes_; }

 private:
  struct Control;
  Stage(std::byte* base, std::uint64_t pool_bytes);

  Control* control_;
  std::byte* pool_;
  std::uint64_t pool_bytes_;
};

// Maps `bytes` of `fd`, asks for huge pages, and populates them where the kernel can: Linux 5.14.
Result<std::byte*> map_populated(int fd, std::uint64_t bytes);

// futex(2) on shared memory. futex_wait() returns at once if word != seen, and within 100 ms.
void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t seen);
void futex_wake(std::atomic<std::uint32_t>& word);

}  // namespace farwrite::bench
