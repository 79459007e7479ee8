// Between gRPC's slices and a stream's, without a copy of what has a reference count.
#pragma once

#include <grpc/slice.h>
#include <grpc/slice_buffer.h>

#include <cstddef>
#include <vector>

#include "farwrite/device.h"
#include "farwrite/stream.h"

namespace farwrite::grpc {

// Takes all slices out of the buffer. They live until the stream needs none of them, which may be
// long after the write is done. gRPC keeps borrowed bytes only until then: they are copied, in the
// thread that writes, and counted in TransportCounts::borrowed(). Static buffers are borrowed. The
// front of a cut slice is not: see grpc_slice_buffer_move_first_no_ref() in interpose.cc.
std::vector<stream::Slice> take_slices(grpc_slice_buffer* from);
// Appends slices that keep theirs. Returns the number of bytes.
std::size_t append_slices(std::vector<stream::Slice> slices, grpc_slice_buffer* to);
// Memory that peers may read; false where there is none.
bool allocate_slice(Device& device, std::size_t bytes, grpc_slice* slice);

}  // namespace farwrite::grpc
