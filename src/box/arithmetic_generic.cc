// The arithmetic for every CPU of the architecture: in vectors of 16 bytes, which x86-64 and
// aarch64 always have, and which the compiler takes apart elsewhere. float16 is converted by
// integer arithmetic.
#include <cstddef>
#include <cstdint>

#include "box/arithmetic_paths.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define FARWRITE_BOX_TARGET
#define FARWRITE_BOX_MEMBER FARWRITE_BOX_UNCHECKED_RACE __attribute__((always_inline)) inline
#define FARWRITE_BOX_INLINE static FARWRITE_BOX_MEMBER

namespace farwrite::box {
namespace {

constexpr std::size_t kRegister = 16;

#if defined(__x86_64__)
using Register = __m128i;
FARWRITE_BOX_MEMBER void stream_register(std::byte* to, Register value) {
  _mm_stream_si128(reinterpret_cast<__m128i*>(to), value);
}
FARWRITE_BOX_MEMBER void stream_fence() { _mm_sfence(); }
#else
typedef std::uint64_t Register __attribute__((vector_size(kRegister)));
FARWRITE_BOX_MEMBER void stream_register(std::byte* to, Register value) {
  *reinterpret_cast<Register*>(to) = value;
}
FARWRITE_BOX_MEMBER void stream_fence() {}
#endif

// What the 16-bit elements share: four of them fill a vector of float.
struct Half : OneStream {
  typedef float Vector __attribute__((vector_size(kRegister)));
  typedef std::uint32_t Bits __attribute__((vector_size(kRegister)));
  typedef std::uint16_t Narrow __attribute__((vector_size(kRegister / 2)));
  typedef std::uint16_t InMemory __attribute__((vector_size(kRegister / 2), aligned(1), may_alias));
  static constexpr std::size_t kStep = kRegister / 2;
  static constexpr std::size_t kElement = 2;

  FARWRITE_BOX_INLINE Vector all(Factor value) {
    return static_cast<float>(value.real()) - Vector{};
  }
  FARWRITE_BOX_INLINE Bits load_bits(const std::byte* from) {
    const Narrow bits = *reinterpret_cast<const InMemory*>(from);
    return __builtin_convertvector(bits, Bits);
  }
  FARWRITE_BOX_INLINE void store_bits(std::byte* to, Bits bits) {
    *reinterpret_cast<InMemory*>(to) = __builtin_convertvector(bits, Narrow);
  }
  // All ones where `left` is above `right`.
  FARWRITE_BOX_INLINE Bits above(Bits left, std::uint32_t right) {
    return reinterpret_cast<Bits>(left > right);
  }
  FARWRITE_BOX_INLINE Bits choose(Bits mask, Bits if_set, Bits otherwise) {
    return (mask & if_set) | (~mask & otherwise);
  }
};

struct Float16 : Half {
  FARWRITE_BOX_INLINE Vector load(const std::byte* from) {
    const Bits half = load_bits(from);
    const Bits magnitude = (half & 0x7fff) << 13;
    const Bits rebiased = magnitude + (112U << 23);
    // Infinity and NaN: the highest exponent stays the highest.
    const Bits special = rebiased + (112U << 23);
    // A subnormal: the same digits behind the point of a normal number, which is then taken away.
    const Bits digits = rebiased + (1U << 23);
    const Bits subnormal =
        reinterpret_cast<Bits>(reinterpret_cast<Vector>(digits) - (Vector{} + 0x1p-14F));
    const Bits exponent = half & 0x7c00;
    const Bits finite = choose(above(exponent, 0), rebiased, subnormal);
    const Bits unsigned_bits = choose(above(exponent, 0x7bff), special, finite);
    return reinterpret_cast<Vector>(unsigned_bits | (half & 0x8000) << 16);
  }
  FARWRITE_BOX_INLINE void store(std::byte* to, Vector value) {
    const Bits bits = reinterpret_cast<Bits>(value);
    const Bits magnitude = bits & 0x7fffffff;
    // A normal result: rounded by adding half of the last digit, or just less if that is even.
    const Bits odd = (magnitude >> 13) & 1;
    const Bits normal = (magnitude - (112U << 23) + 0xfff + odd) >> 13;
    // A subnormal result: adding 0.5 shifts the digits to their place, and the CPU rounds.
    const Bits subnormal =
        reinterpret_cast<Bits>(reinterpret_cast<Vector>(magnitude) + (Vector{} + 0.5F)) -
        (126U << 23);
    const Bits nan = 0x7e00 | ((magnitude >> 13) & 0x1ff);
    Bits half = choose(above(magnitude, (113U << 23) - 1), normal, subnormal);
    half = choose(above(magnitude, 0x477fefff), Bits{} + 0x7c00, half);
    half = choose(above(magnitude, 0x7f800000), nan, half);
    store_bits(to, half | (bits >> 16 & 0x8000));
  }
  FARWRITE_BOX_INLINE void stream(std::byte* to, Vector value) { store(to, value); }
};

struct BFloat16 : Half {
  FARWRITE_BOX_INLINE Vector load(const std::byte* from) {
    return reinterpret_cast<Vector>(load_bits(from) << 16);
  }
  FARWRITE_BOX_INLINE void store(std::byte* to, Vector value) {
    const Bits bits = reinterpret_cast<Bits>(value);
    const Bits sum = bits + 0x7fff + ((bits >> 16) & 1);
    // The sum can carry a NaN over to zero. All ones are a NaN.
    store_bits(to, (sum | above(bits & 0x7fffffff, 0x7f800000)) >> 16);
  }
  FARWRITE_BOX_INLINE void stream(std::byte* to, Vector value) { store(to, value); }
};

}  // namespace
}  // namespace farwrite::box

#include "box/arithmetic_loops.h"

namespace farwrite::box {

void append_generic_path(std::vector<ArithmeticPath>& paths) {
  paths.push_back(path_here("generic", true));
}

}  // namespace farwrite::box
