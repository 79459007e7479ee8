#include "memory/copy.h"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>

#include "core/log.h"
#include "gpu/gpu.h"
#include "gpu/gpu_copy.h"
#include "memory/copy_families.h"

namespace farwrite::memory {
namespace {

using Clock = std::chrono::steady_clock;

// What only a probe or a user may choose (copy_aarch64.cc).
constexpr std::string_view kUnmeasuredKernel = "nt-stnp";

constexpr std::size_t kProbeBytes = std::size_t{1} << 20;
constexpr int kProbeRounds = 5;
constexpr auto kProbeTime = std::chrono::milliseconds(40);
// Streaming must win by this much: for data that is still cached, memcpy is the better choice.
constexpr double kClearlyFaster = 1.05;
// Kernels this close are equals; the preferred one is taken, so that most runs agree.
constexpr double kAboutAsFast = 0.9;

// Memory for one source and one destination, or none.
class ProbeBuffer {
 public:
  ProbeBuffer()
      : data_(::mmap(nullptr, 2 * kProbeBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                     -1, 0)) {
    // Written, since untouched pages would all be the one zero page.
    if (valid()) std::memset(data_, 1, 2 * kProbeBytes);
  }
  ~ProbeBuffer() {
    if (valid()) ::munmap(data_, 2 * kProbeBytes);
  }
  ProbeBuffer(const ProbeBuffer&) = delete;
  ProbeBuffer& operator=(const ProbeBuffer&) = delete;

  bool valid() const { return data_ != MAP_FAILED; }
  std::byte* source() const { return static_cast<std::byte*>(data_); }
  std::byte* destination() const { return source() + kProbeBytes; }

 private:
  void* const data_;
};

// From memory to memory: ordinary stores leave the bytes in a cache, and a copy that is larger than
// the cache pays for writing them back.
double cold_copy_gb_s(CopyFunction copy, const ProbeBuffer& buffer) {
  flush_from_caches(buffer.source(), 2 * kProbeBytes);
  const Clock::time_point start = Clock::now();
  copy(buffer.destination(), buffer.source(), kProbeBytes);
  flush_from_caches(buffer.destination(), kProbeBytes);
  const std::chrono::duration<double> took = Clock::now() - start;
  return took.count() > 0.0 ? static_cast<double>(kProbeBytes) / took.count() / 1e9 : 0.0;
}

// Rounds over all kernels, best of each: a disturbance then hits one round, not one kernel.
void measure(std::vector<CopyKernel>& kernels) {
  const ProbeBuffer buffer;
  const Clock::time_point end = Clock::now() + kProbeTime;
  if (!buffer.valid()) return;
  for (int round = 0; round < kProbeRounds && Clock::now() < end; ++round) {
    for (CopyKernel& kernel : kernels) {
      if (!kernel.supported) continue;
      const double rate = cold_copy_gb_s(kernel.function, buffer);
      if (rate > kernel.probed_gb_s) kernel.probed_gb_s = rate;
    }
  }
}

std::size_t index_of(const std::vector<CopyKernel>& kernels, std::string_view name) {
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    if (kernels[i].name == name) return i;
  }
  return kernels.size();
}

std::vector<CopyKernel> all_kernels() {
  std::vector<CopyKernel> kernels;
  append_x86_kernels(kernels);
  append_aarch64_kernels(kernels);
  append_generic_kernels(kernels);
  return kernels;
}

// The place of FARWRITE_COPY_KERNEL's kernel; nothing if the variable is not set.
std::optional<Result<std::size_t>> wanted_kernel(const std::vector<CopyKernel>& kernels) {
  const char* const wanted = std::getenv("FARWRITE_COPY_KERNEL");
  if (wanted == nullptr || *wanted == '\0') return std::nullopt;
  const std::size_t found = index_of(kernels, wanted);
  if (found < kernels.size() && kernels[found].supported) return found;
  std::string names;
  for (const CopyKernel& kernel : kernels) {
    if (!kernel.supported) continue;
    if (!names.empty()) names += ", ";
    names += kernel.name;
  }
  return Status::error(
      StatusCode::kInvalidArgument, {.operation = "choose a copy kernel"},
      "FARWRITE_COPY_KERNEL=" + std::string(wanted) + " is not a copy kernel of this machine",
      "unset it, or use one of: " + names);
}

struct Choice {
  std::vector<CopyKernel> kernels;
  std::size_t chosen = 0;
};

Choice choose() {
  Choice choice;
  choice.kernels = all_kernels();
  std::vector<CopyKernel>& kernels = choice.kernels;
  choice.chosen = kernels.size();
  if (auto wanted = wanted_kernel(kernels); wanted && wanted->ok()) {
    choice.chosen = **wanted;
  } else if (wanted) {
    core::log(core::LogLevel::kWarning, wanted->status().message());
  }
  if (choice.chosen == kernels.size()) {
    measure(kernels);
    choice.chosen = fastest_kernel(kernels);
  }
  kernels[choice.chosen].chosen = true;
  return choice;
}

const Choice& chosen_once() {
  static const Choice choice = choose();
  return choice;
}

}  // namespace

std::size_t fastest_kernel(const std::vector<CopyKernel>& kernels) {
  const std::size_t plain = index_of(kernels, "memcpy");
  double best = 0.0;
  for (const CopyKernel& kernel : kernels) best = std::max(best, kernel.probed_gb_s);
  if (best <= kernels[plain].probed_gb_s * kClearlyFaster) return plain;
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    if (i != plain && kernels[i].supported && kernels[i].probed_gb_s >= best * kAboutAsFast) {
      return i;
    }
  }
  return plain;
}

CopyFunction streaming_kernel() {
  static const CopyFunction function = [] {
    const std::vector<CopyKernel> kernels = all_kernels();
    auto wanted = wanted_kernel(kernels);
    const bool named = wanted && wanted->ok();
    for (std::size_t i = 0; i < kernels.size(); ++i) {
      if (named ? i != **wanted : kernels[i].name == kUnmeasuredKernel) continue;
      if (kernels[i].supported && kernels[i].name.starts_with("nt-")) return kernels[i].function;
    }
    return CopyFunction{};
  }();
  return function;
}

Status check_copy_kernel_variable() {
  const auto wanted = wanted_kernel(all_kernels());
  return wanted ? wanted->status() : Status();
}

}  // namespace farwrite::memory

namespace farwrite {

const CopyKernel& probe_copy_kernels() {
  const memory::Choice& choice = memory::chosen_once();
  return choice.kernels[choice.chosen];
}

std::vector<CopyKernel> copy_kernels() { return memory::chosen_once().kernels; }

void copy_bytes(void* destination, const void* source, std::size_t bytes) {
  if (bytes < kStreamingCopyBytes) {
    if (bytes != 0)
      std::memcpy(destination, source, bytes);  // memcpy forbids nullptr even for 0 bytes
    return;
  }
  probe_copy_kernels().function(destination, source, bytes);
}

Status copy_memory(void* destination, const void* source, std::size_t bytes) {
  if (bytes == 0) return Status();
  constexpr std::string_view kOperation = "copy";
  auto from = gpu::gpu_of(source);
  if (!from.ok()) return from.status();
  auto to = gpu::gpu_of(destination);
  if (!to.ok()) return to.status();
  FARWRITE_RETURN_IF_ERROR(gpu::check_one_gpu(*from, *to, kOperation));
  const gpu::Gpu* const gpu = *from != nullptr ? *from : *to;
  if (gpu != nullptr) return gpu::copy(*gpu, destination, source, bytes, kOperation);
  copy_bytes(destination, source, bytes);
  return Status();
}

}  // namespace farwrite
