#include "grpc/slices.h"

#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include "grpc/handover.h"
#include "grpc/transport_counts.h"

namespace farwrite::grpc {
namespace {

// gRPC keeps so many bytes inside a slice itself.
constexpr std::size_t kInlinedBytes = GRPC_SLICE_INLINED_SIZE;

struct TakenSlices {
  TakenSlices() { grpc_slice_buffer_init(&buffer); }
  ~TakenSlices() { grpc_slice_buffer_destroy(&buffer); }
  TakenSlices(const TakenSlices&) = delete;
  TakenSlices& operator=(const TakenSlices&) = delete;

  grpc_slice_buffer buffer{};
};

// gRPC's mark of bytes whose memory is not the slice's (grpc/slice.h): of a static buffer, or of
// the front of a slice whose rest has the reference.
bool is_borrowed(const grpc_slice& slice) {
  return reinterpret_cast<std::uintptr_t>(slice.refcount) == 1;
}

// The owner of borrowed bytes may free them once the write is done, and the stream may need them
// longer. The copies lie one after another, so that they can share a lend.
void copy_borrowed(grpc_slice_buffer& buffer) {
  const std::size_t count = buffer.count;
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (is_borrowed(buffer.slices[i])) bytes += GRPC_SLICE_LENGTH(buffer.slices[i]);
  }
  if (bytes == 0) return;
  TransportCounts::get().borrowed(bytes);
  grpc_slice_buffer_add_indexed(&buffer, grpc_slice_malloc(bytes));
  std::uint8_t* to = GRPC_SLICE_START_PTR(buffer.slices[count]);
  for (std::size_t i = 0; i < count; ++i) {
    grpc_slice& slice = buffer.slices[i];
    if (!is_borrowed(slice)) continue;
    std::memcpy(to, slice.data.refcounted.bytes, slice.data.refcounted.length);
    slice.data.refcounted.bytes = to;
    to += slice.data.refcounted.length;
  }
}

void drop_owner(void* owner) {
  taken_back(owner);
  delete static_cast<std::shared_ptr<const void>*>(owner);
}

// In front of an allocated slice. The device lives until the process ends, as its hub does.
struct SliceHead {
  Device* device;
};
constexpr std::size_t kHeaderBytes = 64;  // keeps the alignment

void free_slice(void* memory, [[maybe_unused]] std::size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  std::memset(memory, 0xDD, bytes);  // shows in a test that a peer still reads it
#endif
  auto* const raw = static_cast<std::byte*>(memory) - kHeaderBytes;
  taken_back(raw);
  reinterpret_cast<SliceHead*>(raw)->device->free_raw(raw);
}

}  // namespace

std::vector<stream::Slice> take_slices(grpc_slice_buffer* from) {
  const auto taken = std::make_shared<TakenSlices>();
  grpc_slice_buffer_swap(from, &taken->buffer);
  const std::size_t count = taken->buffer.count;
  copy_borrowed(taken->buffer);
  std::vector<stream::Slice> slices;
  slices.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    grpc_slice& slice = taken->buffer.slices[i];
    slices.push_back({.bytes = {reinterpret_cast<const std::byte*>(GRPC_SLICE_START_PTR(slice)),
                                GRPC_SLICE_LENGTH(slice)},
                      .owner = taken});
  }
  return slices;
}

std::size_t append_slices(std::vector<stream::Slice> slices, grpc_slice_buffer* to) {
  std::size_t bytes = 0;
  for (stream::Slice& slice : slices) {
    bytes += slice.bytes.size;
    // gRPC reads only, though its type does not say so.
    auto* const data = const_cast<std::byte*>(slice.bytes.data);
    if (slice.bytes.size <= kInlinedBytes) {
      grpc_slice_buffer_add(
          to, grpc_slice_from_copied_buffer(reinterpret_cast<const char*>(data), slice.bytes.size));
      continue;
    }
    auto* const owner = new std::shared_ptr<const void>(std::move(slice.owner));
    hand_over(owner);
    grpc_slice_buffer_add(to,
                          grpc_slice_new_with_user_data(data, slice.bytes.size, drop_owner, owner));
  }
  return bytes;
}

bool allocate_slice(Device& device, std::size_t bytes, grpc_slice* slice) {
  std::byte* const raw = device.allocate_raw(bytes + kHeaderBytes);
  if (raw == nullptr) return false;
  reinterpret_cast<SliceHead*>(raw)->device = &device;
  hand_over(raw);
  *slice = grpc_slice_new_with_len(raw + kHeaderBytes, bytes, free_slice);
  return true;
}

}  // namespace farwrite::grpc
