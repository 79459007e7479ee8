// Streaming copies for x86-64: four pages are walked in parallel, one cache line of each in turn.
//
// Four streams keep more DRAM pages and line-fill buffers busy than one does; 8 pages gain nothing,
// 2 lose a little. The prefetch runs 4 lines ahead: the hardware's own stops at page ends.
#include "memory/copy_families.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "core/processor.h"

namespace farwrite::memory {
namespace {

constexpr std::size_t kLine = 64;
constexpr std::size_t kPage = 4096;
constexpr std::size_t kPages = 4;
constexpr std::size_t kAhead = 4 * kLine;

// Prefetching past the end of the source is harmless: it never faults.
inline __attribute__((always_inline)) void prefetch_lines(const std::byte* source) {
  for (std::size_t page = 0; page < kPages; ++page) {
    _mm_prefetch(reinterpret_cast<const char*>(source + page * kPage + kAhead), _MM_HINT_T0);
  }
}

// Each copies kPages pages; `to` is aligned to a line, `from` need not be.
__attribute__((target("avx512f"))) void stream_avx512(std::byte* to, const std::byte* from) {
  for (std::size_t line = 0; line < kPage; line += kLine) {
    prefetch_lines(from + line);
    for (std::size_t at = line; at < kPages * kPage; at += kPage) {
      _mm512_stream_si512(reinterpret_cast<__m512i*>(to + at), _mm512_loadu_si512(from + at));
    }
  }
}

__attribute__((target("avx2"))) void stream_avx2(std::byte* to, const std::byte* from) {
  for (std::size_t line = 0; line < kPage; line += kLine) {
    prefetch_lines(from + line);
    for (std::size_t at = line; at < kPages * kPage; at += kPage) {
      const auto* const in = reinterpret_cast<const __m256i*>(from + at);
      auto* const out = reinterpret_cast<__m256i*>(to + at);
      const __m256i first = _mm256_loadu_si256(in);
      const __m256i second = _mm256_loadu_si256(in + 1);
      _mm256_stream_si256(out, first);
      _mm256_stream_si256(out + 1, second);
    }
  }
}

void stream_sse2(std::byte* to, const std::byte* from) {
  for (std::size_t line = 0; line < kPage; line += kLine) {
    prefetch_lines(from + line);
    for (std::size_t at = line; at < kPages * kPage; at += kPage) {
      const auto* const in = reinterpret_cast<const __m128i*>(from + at);
      auto* const out = reinterpret_cast<__m128i*>(to + at);
      const __m128i first = _mm_loadu_si128(in);
      const __m128i second = _mm_loadu_si128(in + 1);
      const __m128i third = _mm_loadu_si128(in + 2);
      const __m128i fourth = _mm_loadu_si128(in + 3);
      _mm_stream_si128(out, first);
      _mm_stream_si128(out + 1, second);
      _mm_stream_si128(out + 2, third);
      _mm_stream_si128(out + 3, fourth);
    }
  }
}

template <void (*stream_pages)(std::byte*, const std::byte*)>
void copy_streaming(void* destination, const void* source, std::size_t bytes) {
  auto* to = static_cast<std::byte*>(destination);
  const auto* from = static_cast<const std::byte*>(source);
  const std::size_t misaligned = reinterpret_cast<std::uintptr_t>(to) % kLine;
  const std::size_t head = std::min(bytes, misaligned == 0 ? 0 : kLine - misaligned);
  if (head != 0) {
    std::memcpy(to, from, head);
    to += head;
    from += head;
    bytes -= head;
  }
  while (bytes >= kPages * kPage) {
    stream_pages(to, from);
    to += kPages * kPage;
    from += kPages * kPage;
    bytes -= kPages * kPage;
  }
  if (bytes != 0) std::memcpy(to, from, bytes);
  // Streaming stores are weakly ordered: without the fence a later flag could overtake them.
  _mm_sfence();
}

// Without it, a flush waits for the one before: 2 ms for a MiB on a virtual machine, of which a
// copy takes 0.1 ms, so that a measurement told the kernels apart no more.
__attribute__((target("clflushopt"))) void flush_in_any_order(const std::byte* data,
                                                              std::size_t bytes) {
  for (std::size_t at = 0; at < bytes; at += kLine) {
    _mm_clflushopt(const_cast<std::byte*>(data + at));
  }
  _mm_mfence();
}

}  // namespace

void append_x86_kernels(std::vector<CopyKernel>& kernels) {
  const core::ProcessorFeatures& has = core::processor_features();
  kernels.push_back({"nt-avx512", copy_streaming<stream_avx512>, has.avx512f, 0.0, false});
  kernels.push_back({"nt-avx2", copy_streaming<stream_avx2>, has.avx2, 0.0, false});
  kernels.push_back({"nt-sse2", copy_streaming<stream_sse2>, true, 0.0, false});
}

void flush_from_caches(const std::byte* data, std::size_t bytes) {
  if (core::processor_features().clflushopt) {
    flush_in_any_order(data, bytes);
    return;
  }
  for (std::size_t at = 0; at < bytes; at += kLine) _mm_clflush(data + at);
  _mm_mfence();
}

}  // namespace farwrite::memory

#else

namespace farwrite::memory {
void append_x86_kernels(std::vector<CopyKernel>&) {}
}  // namespace farwrite::memory

#endif
