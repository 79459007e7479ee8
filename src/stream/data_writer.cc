#include "stream/data_writer.h"

#include <algorithm>
#include <utility>

#include "core/wire.h"
#include "stream/data_pattern.h"

namespace farwrite::stream {

DataWriter::DataWriter(std::uint64_t stream, std::uint64_t payload)
    : message_(StreamFrame{.kind = FrameKind::kData, .stream = stream}.head()) {
  message_.reserve(message_.size() + static_cast<std::size_t>(payload));
}

void DataWriter::copy(ByteView bytes) {
  if (pair_ == 0 || lent_ > 0) begin_pair();
  message_.insert(message_.end(), bytes.data, bytes.data + bytes.size);
  inline_bytes_ += bytes.size;
}

void DataWriter::lend(std::uint64_t bytes) {
  if (pair_ == 0) begin_pair();
  lent_ += bytes;
}

std::vector<std::byte> DataWriter::take() {
  end_pair();
  return std::exchange(message_, {});
}

void DataWriter::begin_pair() {
  end_pair();
  pair_ = message_.size();
  message_.resize(pair_ + DataPattern::kPairBytes);
  inline_bytes_ = lent_ = 0;
}

void DataWriter::end_pair() {
  if (pair_ == 0) return;
  core::WireWriter lengths;
  lengths.u32(static_cast<std::uint32_t>(inline_bytes_));
  lengths.u32(static_cast<std::uint32_t>(lent_));
  std::copy(lengths.buffer().begin(), lengths.buffer().end(),
            message_.begin() + static_cast<std::ptrdiff_t>(pair_));
}

}  // namespace farwrite::stream
