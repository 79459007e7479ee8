// Fetch: brings lent bytes that cannot be mapped, because their host is another, into this process.
//
// When: once a receiver waits for them. What is fetched is then bounded by what steps wait for, as
// with stock's RecvTensor, and the receiver's allocator is known; a push that nothing asks for
// holds memory of its sender alone. A tensor that came before it was asked for pays a round trip,
// as in stock.
#pragma once

#include <functional>

#include "absl/status/status.h"
#include "tensor/arrival_table.h"
#include "tensorflow/core/framework/allocator.h"

namespace farwrite::plugin {

// `arrival` then holds the bytes in memory of this process, from `allocator` if they are a
// tensor's, and the lease has gone back: nothing of it is a peer's any more.
using Fetched = std::function<void(absl::Status status, ArrivedTensor arrival)>;

// Of an arrival whose lent bytes are unmapped. Calls `fetched` once, on any thread, which it must
// not block; kUnavailable when the peer has gone. The thread that gives up waiting just forgets
// about it: the destination lives until the last byte has moved. Not under a lock: it allocates.
void fetch(ArrivedTensor arrival, tensorflow::Allocator* allocator, Fetched fetched);
// The same into memory that is there already: `destination` is as large as what is lent.
void fetch_into(ArrivedTensor arrival, const tensorflow::Tensor& destination, Fetched fetched);

}  // namespace farwrite::plugin
