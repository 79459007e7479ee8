#include "core/processor.h"

#include <cstdint>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace farwrite::core {
namespace {

#if defined(__x86_64__)

// XCR0: the registers that the system saves for a thread.
constexpr std::uint64_t kSavesAvx = 0x06;     // XMM and YMM
constexpr std::uint64_t kSavesAvx512 = 0xe6;  // these, and the masks and both parts of ZMM
constexpr unsigned kExtendedFeatures = 7;     // a leaf, which old processors lack
constexpr unsigned kClflushopt = 1U << 23;  // in EBX of that leaf; old headers have no name for it

std::uint64_t saved_registers() {
  std::uint32_t low = 0;
  std::uint32_t high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return std::uint64_t{high} << 32 | low;
}

ProcessorFeatures find_features() {
  ProcessorFeatures found;
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  if (__get_cpuid(0, &a, &b, &c, &d) != 0) {
    found.amd = b == signature_AMD_ebx && c == signature_AMD_ecx && d == signature_AMD_edx;
  }
  if (__get_cpuid(1, &a, &b, &c, &d) == 0) return found;
  found.sse42 = (c & bit_SSE4_2) != 0;
  const std::uint64_t saved = (c & bit_OSXSAVE) != 0 ? saved_registers() : 0;
  const bool avx = (c & bit_AVX) != 0 && (saved & kSavesAvx) == kSavesAvx;
  found.f16c = avx && (c & bit_F16C) != 0;
  if (__get_cpuid_count(kExtendedFeatures, 0, &a, &b, &c, &d) == 0) return found;
  found.avx2 = avx && (b & bit_AVX2) != 0;
  found.avx512f = (b & bit_AVX512F) != 0 && (saved & kSavesAvx512) == kSavesAvx512;
  found.clflushopt = (b & kClflushopt) != 0;
  return found;
}

#else

ProcessorFeatures find_features() { return {}; }

#endif

}  // namespace

const ProcessorFeatures& processor_features() {
  static const ProcessorFeatures found = find_features();
  return found;
}

}  // namespace farwrite::core
