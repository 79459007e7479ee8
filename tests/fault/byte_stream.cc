#include "fault/byte_stream.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

namespace farwrite::fault {

void BlockCheck::take(const std::vector<stream::Slice>& slices) {
  auto* const block = reinterpret_cast<std::byte*>(block_.data());
  for (const stream::Slice& slice : slices) {
    ByteView left = slice.bytes;
    while (left.size > 0) {
      const std::size_t size = std::min(left.size, kBlockBytes - filled_);
      std::memcpy(block + filled_, left.data, size);
      left = {left.data + size, left.size - size};
      filled_ += size;
      if (filled_ < kBlockBytes) break;
      filled_ = 0;
      ++blocks_;
      const auto equal = std::count(block_.begin(), block_.end(), blocks_);
      right_ = right_ && static_cast<std::size_t>(equal) == block_.size();
    }
  }
}

ByteStream::ByteStream(const Device& device, const Channel& channel, const stream::Options& options)
    : device_(device),
      streams_(stream::Streams::create(device, channel, options).value()),
      stream_(streams_.open(1).value()) {}

std::future<Status> ByteStream::begin_write(std::vector<stream::Slice> slices) {
  auto done = std::make_shared<std::promise<Status>>();
  stream_.write(std::move(slices), [done](const Status& status) { done->set_value(status); });
  return done->get_future();
}

stream::Slice ByteStream::block(std::uint64_t number) {
  std::byte* const memory = device_.allocate_raw(kBlockBytes);
  if (memory == nullptr) {
    const auto heap = std::make_shared<const std::vector<std::uint64_t>>(kBlockBytes / 8, number);
    return {.bytes = {heap->data(), kBlockBytes}, .owner = heap};
  }
  std::fill_n(reinterpret_cast<std::uint64_t*>(memory), kBlockBytes / 8, number);
  return {
      .bytes = {memory, kBlockBytes},
      .owner = {memory, [device = device_](std::byte* block) mutable { device.free_raw(block); }}};
}

Status ByteStream::write_blocks(std::uint64_t count) {
  for (; count > 0; --count) {
    FARWRITE_RETURN_IF_ERROR(wait(begin_write({block(++written_)})));
  }
  return Status();
}

Status ByteStream::finish() {
  auto done = std::make_shared<std::promise<Status>>();
  stream_.finish([done](const Status& status) { done->set_value(status); });
  return wait(done->get_future());
}

Result<std::vector<stream::Slice>> ByteStream::read() {
  auto come = std::make_shared<std::promise<Result<std::vector<stream::Slice>>>>();
  stream_.read(
      [come](Result<std::vector<stream::Slice>> slices) { come->set_value(std::move(slices)); });
  auto slices = come->get_future();
  if (slices.wait_for(kPatience) == std::future_status::ready) return slices.get();
  return Status(StatusCode::kDeadlineExceeded, "the test's read got nothing");
}

Status ByteStream::read_blocks(BlockCheck& check, std::uint64_t count) {
  while (check.blocks() < count) {
    auto slices = read();
    if (!slices.ok()) return slices.status();
    if (slices->empty()) break;
    check.take(*slices);
  }
  return Status();
}

Status ByteStream::wait(std::future<Status> outcome) {
  if (outcome.wait_for(kPatience) == std::future_status::ready) return outcome.get();
  return Status(StatusCode::kDeadlineExceeded, "the test's write was not done");
}

}  // namespace farwrite::fault
