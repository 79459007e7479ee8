#include "message.h"

#include <algorithm>
#include <string>
#include <utility>

#include "stamps.h"

namespace {

std::span<const std::uint8_t> as_bytes(const std::string& text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

}  // namespace

PayloadMaker::PayloadMaker(std::vector<std::size_t> buffers) : buffers_(std::move(buffers)) {
  for (const std::size_t size : buffers_) bytes_ += size;
  const std::size_t largest = *std::max_element(buffers_.begin(), buffers_.end());
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

bool read_payload(const Serialized& message, std::size_t bytes, std::uint8_t& call) {
  Reader reader(bytes);
  for (const std::string& buffer : message.buffers()) reader.read(as_bytes(buffer));
  call = reader.call();
  return reader.is_whole();
}

bool read_payload(const Plain& message, std::size_t bytes, std::uint8_t& call) {
  std::vector<grpc::Slice> slices;
  if (!message.Dump(&slices).ok()) return false;
  Reader reader(bytes);
  for (const grpc::Slice& slice : slices) reader.read({slice.begin(), slice.size()});
  call = reader.call();
  return reader.is_whole();
}

Plain empty_message(Plain*) {
  const grpc::Slice nothing;
  return {&nothing, 1};
}

bool is_empty(const Serialized& message) { return message.buffers().empty(); }
bool is_empty(const Plain& message) { return !message.Valid() || message.Length() == 0; }
