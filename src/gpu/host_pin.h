// HostPin: host memory that is registered with the CUDA driver, so that GPUs copy at full speed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>

#include "core/fork_guard.h"
#include "gpu/gpu.h"

namespace farwrite::gpu {

// Part of a segment, and ends before its mapping does. Thread-safe.
class HostPin {
 public:
  HostPin() = default;
  ~HostPin();
  HostPin(const HostPin&) = delete;
  HostPin& operator=(const HostPin&) = delete;

  // Registers the segment's memory at the first call. If the driver refuses, a log line says so,
  // and copies take the driver's slower way; GpuStats::pins tells.
  void pin(const Gpu& gpu, std::byte* base, std::uint64_t bytes, bool writable);

 private:
  std::once_flag once_;
  const Gpu* gpu_ = nullptr;
  std::byte* base_ = nullptr;  // null: not registered
  std::uint64_t bytes_ = 0;
  const core::ForkGuard fork_guard_;
};

}  // namespace farwrite::gpu
