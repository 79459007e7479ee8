#include "payload.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>

namespace {

constexpr std::size_t kStride = 4096;
constexpr std::size_t kCacheLine = 64;

std::uint8_t mark(std::uint8_t call, std::size_t place) {
  return static_cast<std::uint8_t>(call + ((place * 0x9e3779b97f4a7c15) >> 56));
}

// The first place at or behind `place` that has a mark.
std::size_t next_mark(std::size_t place) { return (place + kStride - 1) / kStride * kStride; }

// Writes the marks of the piece of the stream that begins at byte `place`.
void write_marks(std::span<std::uint8_t> piece, std::size_t place, std::size_t total,
                 std::uint8_t call) {
  const std::size_t end = place + piece.size();
  for (std::size_t at = next_mark(place); at < end; at += kStride) {
    piece[at - place] = mark(call, at);
  }
  if (!piece.empty() && end == total) piece.back() = mark(call, total - 1);
}

// Keeps the compiler from dropping the loads.
void consume(std::uint64_t value) { asm volatile("" : : "r"(value)); }

// Reads a payload, piece by piece.
class Reader {
 public:
  explicit Reader(std::size_t total) : total_(total) {}

  void read(std::span<const std::uint8_t> piece) {
    if (piece.empty()) return;
    if (place_ == 0) call_ = piece.front();
    std::uint64_t sum = piece.back();
    for (std::size_t at = 0; at < piece.size(); at += kCacheLine) sum += piece[at];
    consume(sum);
    const std::size_t end = place_ + piece.size();
    for (std::size_t at = next_mark(place_); at < end; at += kStride) {
      // The last byte's mark is the same one if it falls on a stride.
      is_right_ = is_right_ && piece[at - place_] == mark(call_, at);
    }
    if (end == total_) is_right_ = is_right_ && piece.back() == mark(call_, end - 1);
    place_ = end;
  }

  // The call's number, if all bytes came and every mark belongs to the same call.
  std::optional<std::uint8_t> call() const {
    return is_right_ && place_ == total_ ? std::optional(call_) : std::nullopt;
  }

 private:
  std::size_t total_;
  std::size_t place_ = 0;
  std::uint8_t call_ = 0;
  bool is_right_ = true;
};

}  // namespace

PayloadMaker::PayloadMaker(std::vector<std::size_t> buffers) : buffers_(std::move(buffers)) {
  std::size_t largest = 0;
  for (const std::size_t size : buffers_) {
    bytes_ += size;
    largest = std::max(largest, size);
  }
  data_ = std::make_unique<std::uint8_t[]>(largest);
  for (std::size_t at = 0; at < largest; ++at) data_[at] = static_cast<std::uint8_t>(at * 31);
}

void PayloadMaker::make(std::uint8_t call, Serialized& message) const {
  message.Clear();
  std::size_t place = 0;
  for (const std::size_t size : buffers_) {
    std::string* buffer = message.add_buffers();
    buffer->assign(reinterpret_cast<const char*>(data_.get()), size);
    write_marks({reinterpret_cast<std::uint8_t*>(buffer->data()), size}, place, bytes_, call);
    place += size;
  }
}

void PayloadMaker::make(std::uint8_t call, Plain& message) const {
  std::vector<grpc::Slice> slices;
  slices.reserve(buffers_.size());
  std::size_t place = 0;
  for (const std::size_t size : buffers_) {
    grpc::Slice& slice = slices.emplace_back(size);
    write_marks({const_cast<std::uint8_t*>(slice.begin()), size}, place, bytes_, call);
    place += size;
  }
  message = grpc::ByteBuffer(slices.data(), slices.size());
}

std::optional<std::uint8_t> read_payload(const Serialized& message, std::size_t bytes) {
  Reader reader(bytes);
  for (const std::string& buffer : message.buffers()) {
    reader.read({reinterpret_cast<const std::uint8_t*>(buffer.data()), buffer.size()});
  }
  return reader.call();
}

std::optional<std::uint8_t> read_payload(const Plain& message, std::size_t bytes) {
  std::vector<grpc::Slice> slices;
  if (!message.Dump(&slices).ok()) return std::nullopt;
  Reader reader(bytes);
  for (const grpc::Slice& slice : slices) reader.read({slice.begin(), slice.size()});
  return reader.call();
}

bool is_empty(const Serialized& message) { return message.buffers().empty(); }
bool is_empty(const Plain& message) { return !message.Valid() || message.Length() == 0; }
