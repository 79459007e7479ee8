// BufferSet: the buffers of one hosted segment, which of them is current, and the stamps that its
// readers check.
//
// A buffer is spare, current, pinned by leases, or filling. Only the thread that changes the
// segment writes bytes and stamps: HostedSegment serializes those calls. Thread-compatible.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "box/segment_layout.h"
#include "core/region.h"
#include "device/device.h"
#include "farwrite/bytes.h"
#include "farwrite/status.h"

namespace farwrite::box {

// The remedy where leases hold every buffer.
inline constexpr std::string_view kReleaseVersions =
    "close leases and models of other versions and drop their arrays, or give more buffers to "
    "create() or publisher()";

class BufferSet {
 public:
  // One buffer of zeros, at `id`; each chunk has seen as many changes as the version says.
  static Result<BufferSet> create(Device device, std::uint64_t bytes, std::uint32_t most,
                                  const VersionId& id);

  std::uint64_t bytes() const { return bytes_; }
  std::uint64_t chunks() const { return SegmentLayout::chunks(bytes_); }
  std::uint64_t version() const { return load_word(state_.data(), SegmentLayout::kVersionAt); }
  // Not beside finish().
  VersionId id() const {
    return {.epoch = load_word(state_.data(), SegmentLayout::kEpochAt), .version = version()};
  }
  // What clients open to see the stamps.
  const MemoryRegion& state() const { return state_; }
  // The buffer of that number. kNotFound for an unknown number.
  Result<MemoryRegion> buffer(std::uint64_t number) const;
  // Of all buffers.
  std::uint64_t allocated() const { return bytes_ * (rows_used_ + set_aside_.size()); }

  std::uint32_t current() const { return current_; }
  std::uint64_t number(std::uint32_t row) const { return rows_[row].number; }
  std::byte* data(std::uint32_t row) const { return rows_[row].region.data(); }
  std::uint64_t pins() const;
  bool pinned(std::uint32_t row) const { return rows_[row].pins > 0; }
  // Of any number: whether take_spare() has given that buffer out.
  bool filling(std::uint32_t row) const { return row < rows_used_ && rows_[row].filling; }

  // A spare buffer to fill, or nothing: every buffer is in use, or the server's memory is. With
  // `leave_one` another one has to stay spare. Its stamps say from then on that it changes.
  std::optional<std::uint32_t> take_spare(bool leave_one = false);
  // Gives a buffer that was not finished back, under another number.
  void put_back(std::uint32_t row);

  // Pins the current buffer, with a spare kept for the next change. kResourceExhausted if none can
  // be kept.
  Status pin_current();
  void unpin(std::uint64_t number);
  // Keeps a pinned buffer that is not current out of the count of buffers: its row gets another
  // one. Its bytes stay as they are until the last pin ends. False if it is not such a buffer.
  bool set_aside(std::uint64_t number);

  // Around a change of chunks of `row`. end_chunk() counts one change more than the current buffer
  // had when `fresh` is true, and as many otherwise (a chunk that was only copied).
  void begin(std::uint32_t row);
  void begin_chunk(std::uint32_t row, std::uint64_t chunk);
  void end_chunk(std::uint32_t row, std::uint64_t chunk, bool fresh);
  // Makes `row` current, at the next version of `epoch`, and returns both.
  VersionId finish(std::uint32_t row, std::uint64_t epoch);

  // Readers see from then on that the segment is gone. Buffers that are neither pinned nor filling
  // go at once, the others with that.
  void free();

 private:
  struct HostedBuffer {
    MemoryRegion region = {};
    std::uint64_t number = 0;  // 0: no buffer yet
    std::uint32_t pins = 0;
    bool filling = false;
  };

  BufferSet(Device device, std::uint64_t bytes, std::uint32_t most)
      : device_(std::move(device)), bytes_(bytes), most_(most) {}
  bool is_spare(std::uint32_t row) const;
  // Of the buffer of that number, or rows_used_.
  std::uint32_t row_of(std::uint64_t number) const;
  void release_unused();
  // Readers see from then on that the row holds no whole version, and no whole chunk.
  void begin_all(std::uint32_t row);
  // Allocates a buffer in a row that has none.
  std::optional<std::uint32_t> grow();
  std::uint64_t chunk_at(std::uint32_t row, std::uint64_t chunk) const {
    return SegmentLayout::chunk_at(bytes_, row, chunk);
  }

  Device device_;
  std::uint64_t bytes_;
  std::uint32_t most_;
  MemoryRegion state_;
  std::array<HostedBuffer, kMaxBuffers> rows_;
  std::map<std::uint64_t, HostedBuffer> set_aside_;  // by number
  std::uint32_t rows_used_ = 0;
  std::uint32_t current_ = 0;
  std::uint64_t next_number_ = 1;
  bool freed_ = false;
};

}  // namespace farwrite::box
