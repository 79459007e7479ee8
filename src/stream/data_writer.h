// DataWriter: makes the message of a data frame (data_pattern.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "farwrite/bytes.h"
#include "stream/stream_frame.h"

namespace farwrite::stream {

// Thread-compatible.
class DataWriter {
 public:
  // `payload` is how long the pattern will be.
  DataWriter(std::uint64_t stream, std::uint64_t payload);

  // The next bytes are in the message.
  void copy(ByteView bytes);
  // The next bytes are lent with it. All that are lent are less than 4 GiB.
  void lend(std::uint64_t bytes);
  std::vector<std::byte> take();

 private:
  void begin_pair();
  void end_pair();

  std::vector<std::byte> message_;
  std::size_t pair_ = 0;  // where the last pair begins; 0 before the first
  std::uint64_t inline_bytes_ = 0;
  std::uint64_t lent_ = 0;
};

}  // namespace farwrite::stream
