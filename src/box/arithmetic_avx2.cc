// The arithmetic for x86-64 with AVX2 and F16C. Without FMA, which rounds differently.
#include "box/arithmetic_paths.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "core/processor.h"

#define FARWRITE_BOX_TARGET __attribute__((target("avx2,f16c")))
#define FARWRITE_BOX_MEMBER \
  FARWRITE_BOX_TARGET FARWRITE_BOX_UNCHECKED_RACE __attribute__((always_inline)) inline
#define FARWRITE_BOX_INLINE static FARWRITE_BOX_MEMBER

namespace farwrite::box {
namespace {

constexpr std::size_t kRegister = 32;
using Register = __m256i;

FARWRITE_BOX_MEMBER void stream_register(std::byte* to, Register value) {
  _mm256_stream_si256(reinterpret_cast<__m256i*>(to), value);
}
FARWRITE_BOX_MEMBER void stream_fence() { _mm_sfence(); }

struct Float16 : OneStream {
  using Vector = __m256;
  static constexpr std::size_t kStep = 16;
  static constexpr std::size_t kElement = 2;

  FARWRITE_BOX_INLINE Vector all(Factor value) {
    return _mm256_set1_ps(static_cast<float>(value.real()));
  }
  FARWRITE_BOX_INLINE Vector load(const std::byte* from) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  }
  FARWRITE_BOX_INLINE __m128i narrow(Vector value) {
    return _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  FARWRITE_BOX_INLINE void store(std::byte* to, Vector value) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), narrow(value));
  }
  FARWRITE_BOX_INLINE void stream(std::byte* to, Vector value) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(to), narrow(value));
  }
};

// Sixteen elements: those at even and those at odd places, which need no moves across the register.
struct Halves {
  __m256 even;
  __m256 odd;

  FARWRITE_BOX_MEMBER Halves operator*(Halves by) const { return {even * by.even, odd * by.odd}; }
  FARWRITE_BOX_MEMBER Halves operator+(Halves to) const { return {even + to.even, odd + to.odd}; }
};

struct BFloat16 : OneStream {
  using Vector = Halves;
  static constexpr std::size_t kStep = 32;
  static constexpr std::size_t kElement = 2;

  FARWRITE_BOX_INLINE Vector all(Factor value) {
    const __m256 factor = _mm256_set1_ps(static_cast<float>(value.real()));
    return {factor, factor};
  }
  FARWRITE_BOX_INLINE Vector load(const std::byte* from) {
    const __m256i pairs = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    return {_mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16)),
            _mm256_castsi256_ps(_mm256_and_si256(pairs, _mm256_set1_epi32(~0xffff)))};
  }
  // The result is in the upper half of each number.
  FARWRITE_BOX_INLINE __m256i round(__m256 value) {
    const __m256i bits = _mm256_castps_si256(value);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i sum = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
    // The sum can carry a NaN over to zero. All ones are a NaN.
    return _mm256_or_si256(sum, _mm256_castps_si256(_mm256_cmp_ps(value, value, _CMP_UNORD_Q)));
  }
  FARWRITE_BOX_INLINE __m256i narrow(Vector value) {
    return _mm256_blend_epi16(_mm256_srli_epi32(round(value.even), 16), round(value.odd), 0xaa);
  }
  FARWRITE_BOX_INLINE void store(std::byte* to, Vector value) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), narrow(value));
  }
  FARWRITE_BOX_INLINE void stream(std::byte* to, Vector value) {
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to), narrow(value));
  }
};

}  // namespace
}  // namespace farwrite::box

#include "box/arithmetic_loops.h"

namespace farwrite::box {

void append_avx2_path(std::vector<ArithmeticPath>& paths) {
  const core::ProcessorFeatures& has = core::processor_features();
  paths.push_back(path_here("avx2", has.avx2 && has.f16c));
}

}  // namespace farwrite::box

#else

namespace farwrite::box {
void append_avx2_path(std::vector<ArithmeticPath>&) {}
}  // namespace farwrite::box

#endif
