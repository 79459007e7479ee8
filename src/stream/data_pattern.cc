#include "stream/data_pattern.h"

#include <algorithm>

#include "core/wire.h"

namespace farwrite::stream {

Result<DataPattern> DataPattern::decode(ByteView payload) {
  constexpr std::string_view kOperation = "read a stream's data";
  constexpr std::string_view kRemedy = "run the same release on both sides";
  core::WireReader reader(payload);
  DataPattern pattern;
  bool empty = reader.remaining() == 0;
  while (reader.remaining() > 0) {
    const std::uint32_t inline_bytes = reader.u32();
    // Every pair but an empty one takes part of the message or of the lent memory, so the sums of
    // a message's 32-bit lengths fit in 64 bits.
    const std::uint32_t lent = reader.u32();
    empty = empty || (inline_bytes == 0 && lent == 0);
    pattern.add({.inline_bytes = reader.bytes(inline_bytes), .lent = lent});
  }
  FARWRITE_RETURN_IF_ERROR(reader.finish(kOperation));
  if (empty) {
    return Status::error(StatusCode::kProtocolError, {.operation = kOperation},
                         "it, or a part of it, brings no bytes", kRemedy);
  }
  return pattern;
}

DataPattern DataPattern::take(std::uint64_t lent) {
  DataPattern front;
  const auto take_part = [&](PatternBytes& from, std::uint64_t bytes) {
    const PatternBytes part = {.inline_bytes = from.inline_bytes, .lent = bytes};
    front.add(part);
    inline_bytes_ -= part.inline_bytes.size;
    lent_bytes_ -= bytes;
    lent -= bytes;
    from.inline_bytes = {};
    from.lent -= bytes;
    if (from.lent == 0) ++first_;
  };
  while (first_ < pairs_.size() && (lent > 0 || lent_bytes_ == 0)) {
    PatternBytes& pair = pairs_[first_];
    take_part(pair, std::min(pair.lent, lent));
  }
  return front;
}

std::vector<Slice> DataPattern::slices(const std::shared_ptr<const void>& message,
                                       const Slice& lent) const {
  std::vector<Slice> slices;
  slices.reserve(2 * (pairs_.size() - first_));
  const std::byte* next = lent.bytes.data;
  for (std::size_t i = first_; i < pairs_.size(); ++i) {
    const PatternBytes& pair = pairs_[i];
    if (pair.inline_bytes.size > 0) {
      slices.push_back({.bytes = pair.inline_bytes, .owner = message});
    }
    if (pair.lent == 0) continue;
    slices.push_back({.bytes = {next, static_cast<std::size_t>(pair.lent)}, .owner = lent.owner});
    next += pair.lent;
  }
  return slices;
}

void DataPattern::add(const PatternBytes& pair) {
  pairs_.push_back(pair);
  inline_bytes_ += pair.inline_bytes.size;
  lent_bytes_ += pair.lent;
}

}  // namespace farwrite::stream
