// Streaming copy for aarch64 with non-temporal pair stores (STNP). Its tests have run under an
// emulator only; on hardware it is unmeasured, so nothing but the probe may choose it.
#include "memory/copy_families.h"

#if defined(__aarch64__)

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace farwrite::memory {
namespace {

constexpr std::size_t kLine = 64;
constexpr std::size_t kPage = 4096;
constexpr std::size_t kPages = 4;
constexpr std::size_t kAhead = 4 * kLine;

inline void stream_line(std::byte* to, const std::byte* from) {
  asm volatile(
      "prfm pldl1strm, [%[ahead]]\n\t"
      "ldp q0, q1, [%[from]]\n\t"
      "ldp q2, q3, [%[from], #32]\n\t"
      "stnp q0, q1, [%[to]]\n\t"
      "stnp q2, q3, [%[to], #32]\n\t"
      :
      : [to] "r"(to), [from] "r"(from), [ahead] "r"(from + kAhead)
      : "v0", "v1", "v2", "v3", "memory");
}

void copy_stnp(void* destination, const void* source, std::size_t bytes) {
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
    for (std::size_t line = 0; line < kPage; line += kLine) {
      for (std::size_t at = line; at < kPages * kPage; at += kPage) stream_line(to + at, from + at);
    }
    to += kPages * kPage;
    from += kPages * kPage;
    bytes -= kPages * kPage;
  }
  if (bytes != 0) std::memcpy(to, from, bytes);
  // A store release orders ordinary stores, but a non-temporal pair only with a barrier in between.
  asm volatile("dmb ish" ::: "memory");
}

}  // namespace

void append_aarch64_kernels(std::vector<CopyKernel>& kernels) {
  kernels.push_back({"nt-stnp", copy_stnp, true, 0.0, false});
}

void flush_from_caches(const std::byte* data, std::size_t bytes) {
  // 16 bytes is the smallest line the architecture allows, 64 what every server core has; a longer
  // line is merely flushed twice.
  for (std::size_t at = 0; at < bytes; at += kLine) asm volatile("dc civac, %0" ::"r"(data + at));
  asm volatile("dsb ish" ::: "memory");
}

}  // namespace farwrite::memory

#else

namespace farwrite::memory {
void append_aarch64_kernels(std::vector<CopyKernel>&) {}
}  // namespace farwrite::memory

#endif
