#include "kept_messages.h"

#include <algorithm>
#include <cstring>
#include <sstream>
#include <vector>

namespace farwrite::connections {
namespace {

constexpr uint64_t kOfSeed = 0x9E3779B97F4A7C15;
constexpr uint64_t kOfPlace = 0xBF58476D1CE4E5B9;
constexpr size_t kWord = sizeof(uint64_t);

// No two seeds have a word in common, wherever it stands.
void fill(uint64_t seed, size_t bytes, uint8_t* to) {
  uint64_t word = seed * kOfSeed;
  for (size_t at = 0; at < bytes; at += kWord, word += kOfPlace) {
    std::memcpy(to + at, &word, std::min(kWord, bytes - at));
  }
}

// Where the message differs from what its seed gives; its size if nowhere.
size_t first_difference(const grpc::ByteBuffer& message, uint64_t seed, size_t bytes) {
  std::vector<uint8_t> expected(bytes);
  fill(seed, bytes, expected.data());
  std::vector<grpc::Slice> slices;
  if (!message.Dump(&slices).ok()) return 0;
  size_t at = 0;
  for (const grpc::Slice& slice : slices) {
    const size_t most = std::min(slice.size(), bytes - at);
    const auto* const differs =
        std::mismatch(slice.begin(), slice.begin() + most, expected.data() + at).first;
    at += static_cast<size_t>(differs - slice.begin());
    if (differs != slice.end()) break;
  }
  return at;
}

}  // namespace

std::string Batch::encode() const {
  return std::to_string(seed) + " " + std::to_string(count) + " " + std::to_string(bytes);
}

Batch Batch::decode(const std::string& text) {
  Batch batch;
  std::istringstream(text) >> batch.seed >> batch.count >> batch.bytes;
  return batch;
}

grpc::ByteBuffer Batch::message(int index) const {
  const grpc::Slice slice(bytes);
  fill(seed + static_cast<uint64_t>(index), bytes, const_cast<uint8_t*>(slice.begin()));
  return grpc::ByteBuffer(&slice, 1);
}

grpc::ByteBuffer* KeptMessages::next() { return &kept_.emplace_back(); }

std::string KeptMessages::check() const {
  if (count() == batch_.count) return changed();
  return std::to_string(count()) + " of " + std::to_string(batch_.count) + " messages came";
}

std::string KeptMessages::changed() const {
  if (count() > batch_.count) return check();
  size_t wrong = 0;
  std::string first;
  for (size_t i = 0; i < kept_.size(); ++i) {
    const size_t at = first_difference(kept_[i], batch_.seed + i, batch_.bytes);
    if (at == batch_.bytes && kept_[i].Length() == batch_.bytes) continue;
    if (wrong++ > 0) continue;
    first = "; the first, number " + std::to_string(i) + ", differs from byte " +
            std::to_string(at) + " of " + std::to_string(batch_.bytes);
  }
  return wrong == 0 ? "" : std::to_string(wrong) + " messages came changed" + first;
}

}  // namespace farwrite::connections
