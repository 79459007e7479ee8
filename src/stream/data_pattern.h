// DataPattern: in which order a data frame's bytes come from its message and from the memory lent
// with it. It is the frame's payload:
//
//   repeated { u32 inline_bytes, u32 lent_bytes, the inline bytes }
//
// A pair stands for its inline bytes and then for the next bytes of the lent memory. So one message
// and one lend carry many slices that are cut from one buffer, with headers in between.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "farwrite/bytes.h"
#include "farwrite/status.h"
#include "stream/stream.h"

namespace farwrite::stream {

// What the receiver makes of a payload. Views point into the message. Thread-compatible.
class DataPattern {
 public:
  static constexpr std::uint64_t kPairBytes = 8;  // without the inline bytes

  // kProtocolError for a payload that stands for no bytes, has a pair without bytes, or ends early.
  static Result<DataPattern> decode(ByteView payload);

  std::uint64_t inline_bytes() const { return inline_bytes_; }
  std::uint64_t lent_bytes() const { return lent_bytes_; }

  // Takes the front off: the next `lent` lent bytes, and the inline bytes before, between and, if
  // no lent byte is left, behind them. `lent` is at most lent_bytes().
  DataPattern take(std::uint64_t lent);
  // The bytes in their order; `lent` is all the memory that the pattern speaks of.
  std::vector<Slice> slices(const std::shared_ptr<const void>& message, const Slice& lent) const;

 private:
  struct PatternBytes {
    ByteView inline_bytes = {};
    std::uint64_t lent = 0;
  };
  void add(const PatternBytes& pair);

  std::vector<PatternBytes> pairs_;
  std::size_t first_ = 0;  // the pairs before it have been taken
  std::uint64_t inline_bytes_ = 0;
  std::uint64_t lent_bytes_ = 0;
};

}  // namespace farwrite::stream
