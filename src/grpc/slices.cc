#include "grpc/slices.h"

#include <memory>
#include <utility>

#include "grpc/handover.h"

namespace farwrite::grpc {
namespace {

// gRPC keeps so many bytes inside a slice itself.
constexpr std::size_t kInlinedBytes = GRPC_SLICE_INLINED_SIZE;

struct Taken {
  Taken() { grpc_slice_buffer_init(&buffer); }
  ~Taken() { grpc_slice_buffer_destroy(&buffer); }
  Taken(const Taken&) = delete;
  Taken& operator=(const Taken&) = delete;

  grpc_slice_buffer buffer{};
};

void drop_owner(void* owner) {
  taken_back(owner);
  delete static_cast<std::shared_ptr<const void>*>(owner);
}

// In front of an allocated slice. The device lives until the process ends, as its hub does.
struct Header {
  Device* device;
};
constexpr std::size_t kHeaderBytes = 64;  // keeps the alignment

void free_slice(void* memory, std::size_t /*bytes*/) {
  auto* const raw = static_cast<std::byte*>(memory) - kHeaderBytes;
  taken_back(raw);
  reinterpret_cast<Header*>(raw)->device->free_raw(raw);
}

}  // namespace

std::vector<stream::Slice> take_slices(grpc_slice_buffer* from) {
  const auto taken = std::make_shared<Taken>();
  grpc_slice_buffer_swap(from, &taken->buffer);
  std::vector<stream::Slice> slices;
  slices.reserve(taken->buffer.count);
  for (std::size_t i = 0; i < taken->buffer.count; ++i) {
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
  reinterpret_cast<Header*>(raw)->device = &device;
  hand_over(raw);
  *slice = grpc_slice_new_with_len(raw + kHeaderBytes, bytes, free_slice);
  return true;
}

}  // namespace farwrite::grpc
