#include "stamps.h"

namespace {

constexpr std::size_t kCacheLine = 64;

// Keeps the compiler from dropping the loads.
void consume(std::uint64_t value) { asm volatile("" : : "r"(value)); }

}  // namespace

void Reader::read(std::span<const std::uint8_t> piece) {
  if (piece.empty()) return;
  if (place_ == 0) call_ = piece.front();
  std::uint64_t sum = piece.back();
  for (std::size_t at = 0; at < piece.size(); at += kCacheLine) sum += piece[at];
  consume(sum);
  const std::size_t end = place_ + piece.size();
  const std::size_t first = (place_ + kStride - 1) / kStride * kStride;
  for (std::size_t at = first; at < end; at += kStride) {
    // The last byte's mark is the same one if it falls on a stride.
    is_right_ = is_right_ && piece[at - place_] == mark(call_, at);
  }
  if (end == total_) is_right_ = is_right_ && piece.back() == mark(call_, end - 1);
  place_ = end;
}
