// The limits of `bench box`: the same work without a box, in loops as plain as they can be.
#pragma once

#include <cstddef>
#include <cstdint>

#include "farwrite/status.h"

namespace farwrite::bench {

// destination += source, as a compiler vectorizes the plain loop, in `threads` equal parts.
void add_in_place(float* destination, const float* source, std::uint64_t elements,
                  std::uint32_t threads);

// Sends all of `bytes` through a blocking socket.
Status send_all(int socket, const std::byte* data, std::uint64_t bytes);

// Receives all of `bytes` into place. kUnavailable if the other side closes before.
Status receive_all(int socket, std::byte* data, std::uint64_t bytes);

}  // namespace farwrite::bench
