// Between gRPC's slices and a stream's, without a copy.
#pragma once

#include <grpc/slice.h>
#include <grpc/slice_buffer.h>

#include <cstddef>
#include <vector>

#include "farwrite/device.h"
#include "farwrite/stream.h"

namespace farwrite::grpc {

// Takes all slices out of the buffer. They live until the stream needs none of them.
std::vector<stream::Slice> take_slices(grpc_slice_buffer* from);
// Appends slices that keep theirs. Returns the number of bytes.
std::size_t append_slices(std::vector<stream::Slice> slices, grpc_slice_buffer* to);
// Memory that peers may read; false where there is none.
bool allocate_slice(Device& device, std::size_t bytes, grpc_slice* slice);

}  // namespace farwrite::grpc
