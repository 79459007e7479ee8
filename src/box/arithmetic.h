// The arithmetic of the parameter box, on plain memory.
//
// `type` is any ElementType but kBytes. A buffer starts at a multiple of the element size. An
// operand is either the destination itself or does not overlap it. A large operation may use
// streaming stores; it then ends with a fence, so that a release store made after the call
// publishes the bytes.
//
// Floating point: a product is rounded before it is added (no fused multiply-add). The factor of
// float32, float16 and bfloat16 is rounded to float first. The 16-bit types are computed in float,
// and the result is rounded to nearest, ties to even. A NaN stays a NaN, but its payload and sign
// are unspecified. Integers wrap around. So every processor computes the same
// bytes, but for NaNs.
//
// Thread-safe. While a call writes, other threads and processes may read the same memory if a
// sequence lock tells them to discard what they read.
#pragma once

#include <cstddef>

#include "box/box.h"

namespace farwrite::box {

// destination += factor * x
void accumulate(ElementType type, void* destination, const void* x, Factor factor,
                std::size_t elements);
// destination = factor * x + y
void axpy(ElementType type, void* destination, const void* x, const void* y, Factor factor,
          std::size_t elements);
// destination *= factor
void scale(ElementType type, void* destination, Factor factor, std::size_t elements);
// destination = value
void fill(ElementType type, void* destination, Factor value, std::size_t elements);
// Exchanges the contents of `a` and `b`, which do not overlap.
void swap_bytes(void* a, void* b, std::size_t bytes);

// kInvalidArgument unless `factor` may be the factor or the value of the calls above: always for
// kBytes, which has no arithmetic, and for an integer type if the factor is no value of that type.
Status check_factor(ElementType type, Factor factor);

}  // namespace farwrite::box
