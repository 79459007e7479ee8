#include "ring_reader.h"

#include <algorithm>
#include <utility>

namespace farwrite::experiments {
namespace {

// Room goes back to the peer in so many parts of a ring.
constexpr std::uint64_t kParts = 8;

}  // namespace

Status RingReader::add(std::uint64_t bytes) {
  if (bytes <= ring_.size - available_) {
    available_ += bytes;
    return Status();
  }
  return Status::error(StatusCode::kProtocolError, {"receive from a ring", peer_},
                       "the peer wrote " + std::to_string(bytes) + " bytes into a ring of " +
                           std::to_string(ring_.size) + ", of which " + std::to_string(available_) +
                           " bytes were taken",
                       "run the same release on both sides");
}

ByteView RingReader::peek(std::uint64_t most) const {
  if (available_ == 0) return {};
  const std::uint64_t at = read_ % ring_.size;
  const std::uint64_t bytes = std::min({available_, ring_.size - at, most});
  return {ring_.data + at, static_cast<std::size_t>(bytes)};
}

std::uint64_t RingReader::consume(std::uint64_t bytes) {
  read_ += bytes;
  available_ -= bytes;
  owed_ += bytes;
  return owed_ < ring_.size / kParts ? 0 : std::exchange(owed_, 0);
}

}  // namespace farwrite::experiments
