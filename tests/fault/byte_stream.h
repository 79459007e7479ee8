// ByteStream: one end of the byte stream between a test and its child, with calls that wait. What
// travels are blocks of 1 MiB, the first full of ones, the second of twos.
#pragma once

#include <chrono>
#include <cstdint>
#include <future>
#include <vector>

#include "fault/fixture.h"
#include "stream/stream.h"

namespace farwrite::fault {

inline constexpr std::size_t kBlockBytes = std::size_t{1} << 20;

// Looks at blocks as they arrive, in slices of any length.
class BlockCheck {
 public:
  void take(const std::vector<stream::Slice>& slices);
  // Whole blocks so far.
  std::uint64_t blocks() const { return blocks_; }
  bool right() const { return right_; }

 private:
  std::vector<std::uint64_t> block_ = std::vector<std::uint64_t>(kBlockBytes / 8);
  std::size_t filled_ = 0;  // bytes
  std::uint64_t blocks_ = 0;
  bool right_ = true;
};

class ByteStream {
 public:
  ByteStream(const Device& device, const Channel& channel, const stream::Options& options = {});

  // The future holds the outcome, once the write is done.
  std::future<Status> begin_write(std::vector<stream::Slice> slices);
  // Block `number`, in memory of the device, or of the heap while the device has none.
  stream::Slice block(std::uint64_t number);
  // Writes blocks from the first one on.
  Status write_blocks(std::uint64_t count);
  Status finish();
  // The next slices; none at the end.
  Result<std::vector<stream::Slice>> read();
  // Takes whole blocks from the stream until there are `count`, or the end.
  Status read_blocks(BlockCheck& check, std::uint64_t count = UINT64_MAX);
  stream::Stats stats() const { return streams_.stats(); }

 private:
  static Status wait(std::future<Status> outcome);

  Device device_;
  stream::Streams streams_;
  stream::Stream stream_;
  std::uint64_t written_ = 0;  // blocks
};

}  // namespace farwrite::fault
