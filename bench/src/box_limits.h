// The limit of accumulation in `bench box`: the same work without a box, in a loop as plain as it
// can be.
#pragma once

#include <cstdint>

namespace farwrite::bench {

// destination += source, as a compiler vectorizes the plain loop, in `threads` equal parts.
void add_in_place(float* destination, const float* source, std::uint64_t elements,
                  std::uint32_t threads);

}  // namespace farwrite::bench
