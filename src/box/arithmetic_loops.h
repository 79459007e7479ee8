// The loops of one ArithmeticPath, compiled for the CPU features that its source file names. That
// file defines, before it includes this one:
//   FARWRITE_BOX_TARGET   the attribute with those features; empty for the baseline
//   kRegister             the size of a vector register, in bytes
//   Register              a vector of so many bytes, of integers
//   stream_register()     a store of it past the cache, and stream_fence(), which orders such
//   stores Float16, BFloat16     like Float32 below, each with vectors of its own kind
//
// Everything here is in an unnamed namespace and forced inline, so that no code compiled for one
// set of features is ever called with another.
//
// Large operations walk several places in parallel, one cache line of each in turn, as the copy
// kernels do: that keeps more DRAM pages and line-fill buffers busy than one stream does.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "box/arithmetic_paths.h"
#include "memory/copy.h"

// A function that touches the memory of segments.
#define FARWRITE_BOX_KERNEL FARWRITE_BOX_TARGET FARWRITE_BOX_UNCHECKED_RACE

namespace farwrite::box {
namespace {

constexpr std::size_t kLine = 64;
// Between the streams: more than a page, so that their lines do not share a set of the cache.
constexpr std::size_t kStride = 5120;

// A number at any address, of any type.
template <typename Number>
struct __attribute__((packed, may_alias)) Unaligned {
  Number content;
};
struct Bytes16 {
  std::uint64_t halves[2];
};
struct Bytes32 {
  std::uint64_t quarters[4];
};

template <typename Piece>
FARWRITE_BOX_MEMBER void copy_piece(std::byte* to, const std::byte* from, std::size_t bytes,
                                    std::size_t& at) {
  if ((bytes & sizeof(Piece)) == 0) return;
  reinterpret_cast<Piece*>(to + at)->content = reinterpret_cast<const Piece*>(from + at)->content;
  at += sizeof(Piece);
}

// Copies less than a line, without a call: ThreadSanitizer checks what the C library copies.
FARWRITE_BOX_MEMBER void copy_part(std::byte* to, const std::byte* from, std::size_t bytes) {
  std::size_t at = 0;
  copy_piece<Unaligned<Bytes32>>(to, from, bytes, at);
  copy_piece<Unaligned<Bytes16>>(to, from, bytes, at);
  copy_piece<Unaligned<std::uint64_t>>(to, from, bytes, at);
  copy_piece<Unaligned<std::uint32_t>>(to, from, bytes, at);
  copy_piece<Unaligned<std::uint16_t>>(to, from, bytes, at);
  copy_piece<Unaligned<std::uint8_t>>(to, from, bytes, at);
}

// An element has the vector it is computed in, and the bytes of memory that such a vector covers.
// Integers are computed unsigned, which wraps around.
template <typename Computed>
struct Plain : FourStreams {
  typedef Computed Vector __attribute__((vector_size(kRegister)));  // NOLINT(modernize-use-using)
  typedef Computed InMemory                                         // NOLINT(modernize-use-using)
      __attribute__((vector_size(kRegister), aligned(1), may_alias));
  static constexpr std::size_t kStep = kRegister;
  static constexpr std::size_t kElement = sizeof(Computed);

  FARWRITE_BOX_INLINE Vector load(const std::byte* from) {
    return *reinterpret_cast<const InMemory*>(from);
  }
  FARWRITE_BOX_INLINE void store(std::byte* to, Vector value) {
    *reinterpret_cast<InMemory*>(to) = value;
  }
  FARWRITE_BOX_INLINE void stream(std::byte* to, Vector value) {
    stream_register(to, reinterpret_cast<Register>(value));
  }
};

struct Float64 : Plain<double> {
  FARWRITE_BOX_INLINE Vector all(Factor value) { return value.real() - Vector{}; }
};
struct Float32 : Plain<float> {
  FARWRITE_BOX_INLINE Vector all(Factor value) {
    return static_cast<float>(value.real()) - Vector{};
  }
};
struct Int32 : Plain<std::uint32_t> {
  FARWRITE_BOX_INLINE Vector all(Factor value) {
    return Vector{} + static_cast<std::uint32_t>(value.whole());
  }
};
struct Int64 : Plain<std::uint64_t> {
  FARWRITE_BOX_INLINE Vector all(Factor value) {
    return Vector{} + static_cast<std::uint64_t>(value.whole());
  }
};

// Each yields the new contents of one vector's bytes. Overwrites: the old contents do not matter.
struct Accumulate {
  static constexpr bool kReadsX = true;
  static constexpr bool kReadsY = false;
  static constexpr bool kOverwrites = false;
  template <typename Element>
  FARWRITE_BOX_INLINE auto apply(typename Element::Vector factor, const std::byte* destination,
                                 const std::byte* x, const std::byte*) {
    return Element::load(destination) + factor * Element::load(x);
  }
};
struct Axpy {
  static constexpr bool kReadsX = true;
  static constexpr bool kReadsY = true;
  static constexpr bool kOverwrites = true;
  template <typename Element>
  FARWRITE_BOX_INLINE auto apply(typename Element::Vector factor, const std::byte*,
                                 const std::byte* x, const std::byte* y) {
    return factor * Element::load(x) + Element::load(y);
  }
};
struct Scale {
  static constexpr bool kReadsX = false;
  static constexpr bool kReadsY = false;
  static constexpr bool kOverwrites = false;
  template <typename Element>
  FARWRITE_BOX_INLINE auto apply(typename Element::Vector factor, const std::byte* destination,
                                 const std::byte*, const std::byte*) {
    return Element::load(destination) * factor;
  }
};
struct Fill {
  static constexpr bool kReadsX = false;
  static constexpr bool kReadsY = false;
  static constexpr bool kOverwrites = true;
  template <typename Element>
  FARWRITE_BOX_INLINE auto apply(typename Element::Vector value, const std::byte*, const std::byte*,
                                 const std::byte*) {
    return value;
  }
};

// Operands move on together; an operand that the operation does not read is null and stays null.
template <typename Element, typename Operation>
struct Run {
  using Vector = typename Element::Vector;
  static constexpr std::size_t kBlock = Element::kStreams * kStride;

  std::byte* destination;
  const std::byte* x;
  const std::byte* y;

  FARWRITE_BOX_INLINE const std::byte* after(const std::byte* operand, bool read, std::size_t by) {
    return read ? operand + by : operand;
  }

  template <bool streams>
  FARWRITE_BOX_INLINE void line(const Run& at, std::size_t offset, Vector factor) {
    for (std::size_t step = offset; step < offset + kLine; step += Element::kStep) {
      const Vector result = Operation::template apply<Element>(
          factor, at.destination + step, after(at.x, Operation::kReadsX, step),
          after(at.y, Operation::kReadsY, step));
      if constexpr (streams) {
        Element::stream(at.destination + step, result);
      } else {
        Element::store(at.destination + step, result);
      }
    }
  }

  FARWRITE_BOX_INLINE void advance(Run& at, std::size_t bytes) {
    at.destination += bytes;
    at.x = after(at.x, Operation::kReadsX, bytes);
    at.y = after(at.y, Operation::kReadsY, bytes);
  }

  // Less than a line. Computed in a copy, by the same instructions as a whole line.
  FARWRITE_BOX_INLINE void part(Run& at, std::size_t bytes, Vector factor) {
    alignas(kLine) std::byte copies[3][kLine] = {};
    if (!Operation::kOverwrites) copy_part(copies[0], at.destination, bytes);
    if (Operation::kReadsX) copy_part(copies[1], at.x, bytes);
    if (Operation::kReadsY) copy_part(copies[2], at.y, bytes);
    line<false>(Run{copies[0], copies[1], copies[2]}, 0, factor);
    copy_part(at.destination, copies[0], bytes);
    advance(at, bytes);
  }

  // Prefetching past the end is harmless: it never faults.
  template <bool streams>
  FARWRITE_BOX_INLINE void prefetch(const Run& at, std::size_t offset) {
    for (std::size_t ahead = offset + Element::kAhead; ahead < kBlock + Element::kAhead;
         ahead += kStride) {
      if constexpr (!streams) __builtin_prefetch(at.destination + ahead, 1);
      if constexpr (Operation::kReadsX) __builtin_prefetch(at.x + ahead);
      if constexpr (Operation::kReadsY) __builtin_prefetch(at.y + ahead);
    }
  }

  template <bool streams>
  FARWRITE_BOX_INLINE void blocks(Run& at, std::size_t& bytes, Vector factor) {
    for (; bytes >= kBlock; bytes -= kBlock) {
      for (std::size_t first = 0; first < kStride; first += kLine) {
        prefetch<streams>(at, first);
        for (std::size_t offset = first; offset < kBlock; offset += kStride) {
          line<streams>(at, offset, factor);
        }
      }
      advance(at, kBlock);
    }
  }

  FARWRITE_BOX_KERNEL static void all(void* destination, const void* x, const void* y,
                                      Factor factor, std::size_t elements) {
    const Vector factors = Element::all(factor);
    Run at{static_cast<std::byte*>(destination), static_cast<const std::byte*>(x),
           static_cast<const std::byte*>(y)};
    std::size_t bytes = elements * Element::kElement;
    const std::size_t misaligned = reinterpret_cast<std::uintptr_t>(destination) % kLine;
    const std::size_t head = std::min(bytes, misaligned == 0 ? 0 : kLine - misaligned);
    if (head != 0) part(at, head, factors);
    bytes -= head;
    if (Operation::kOverwrites && bytes >= kStreamingCopyBytes && destination != x &&
        destination != y) {
      blocks<true>(at, bytes, factors);
      // Streaming stores are weakly ordered: a later flag could overtake them.
      stream_fence();
    } else {
      blocks<false>(at, bytes, factors);
    }
    for (; bytes >= kLine; bytes -= kLine) {
      line<false>(at, 0, factors);
      advance(at, kLine);
    }
    if (bytes != 0) part(at, bytes, factors);
  }
};

template <typename Operation>
void run(ElementType type, void* destination, const void* x, const void* y, Factor factor,
         std::size_t elements) {
  switch (type) {
    case ElementType::kFloat64:
      return Run<Float64, Operation>::all(destination, x, y, factor, elements);
    case ElementType::kFloat32:
      return Run<Float32, Operation>::all(destination, x, y, factor, elements);
    case ElementType::kFloat16:
      return Run<Float16, Operation>::all(destination, x, y, factor, elements);
    case ElementType::kBFloat16:
      return Run<BFloat16, Operation>::all(destination, x, y, factor, elements);
    case ElementType::kInt32:
      return Run<Int32, Operation>::all(destination, x, y, factor, elements);
    case ElementType::kInt64:
      return Run<Int64, Operation>::all(destination, x, y, factor, elements);
    case ElementType::kBytes:
      return;
  }
}

void accumulate_here(ElementType type, void* destination, const void* x, Factor factor,
                     std::size_t elements) {
  run<Accumulate>(type, destination, x, nullptr, factor, elements);
}
void axpy_here(ElementType type, void* destination, const void* x, const void* y, Factor factor,
               std::size_t elements) {
  run<Axpy>(type, destination, x, y, factor, elements);
}
void scale_here(ElementType type, void* destination, Factor factor, std::size_t elements) {
  run<Scale>(type, destination, nullptr, nullptr, factor, elements);
}
void fill_here(ElementType type, void* destination, Factor value, std::size_t elements) {
  run<Fill>(type, destination, nullptr, nullptr, value, elements);
}

FARWRITE_BOX_MEMBER void swap_line(std::byte* a, std::byte* b) {
  for (std::size_t step = 0; step < kLine; step += kRegister) {
    const auto of_a = Int32::load(a + step);
    const auto of_b = Int32::load(b + step);
    Int32::store(a + step, of_b);
    Int32::store(b + step, of_a);
  }
}

FARWRITE_BOX_MEMBER void swap_part(std::byte* a, std::byte* b, std::size_t bytes) {
  alignas(kLine) std::byte of_a[kLine];
  alignas(kLine) std::byte of_b[kLine];
  copy_part(of_a, a, bytes);
  copy_part(of_b, b, bytes);
  copy_part(a, of_b, bytes);
  copy_part(b, of_a, bytes);
}

FARWRITE_BOX_KERNEL void swap_bytes_here(void* a, void* b, std::size_t bytes) {
  constexpr std::size_t kBlock = Int32::kStreams * kStride;
  auto* one = static_cast<std::byte*>(a);
  auto* other = static_cast<std::byte*>(b);
  for (; bytes >= kBlock; bytes -= kBlock) {
    for (std::size_t first = 0; first < kStride; first += kLine) {
      for (std::size_t offset = first; offset < kBlock; offset += kStride) {
        __builtin_prefetch(one + offset + Int32::kAhead, 1);
        __builtin_prefetch(other + offset + Int32::kAhead, 1);
      }
      for (std::size_t offset = first; offset < kBlock; offset += kStride) {
        swap_line(one + offset, other + offset);
      }
    }
    one += kBlock;
    other += kBlock;
  }
  for (; bytes >= kLine; bytes -= kLine) {
    swap_line(one, other);
    one += kLine;
    other += kLine;
  }
  if (bytes != 0) swap_part(one, other, bytes);
}

ArithmeticPath path_here(std::string_view name, bool supported) {
  return {name, supported, accumulate_here, axpy_here, scale_here, fill_here, swap_bytes_here};
}

}  // namespace
}  // namespace farwrite::box
