/// @file
/// Memory of GPUs in this process.
#pragma once

#include <cstddef>
#include <cstdint>

#include "farwrite/c_device.h"
#include "farwrite/internal/bridge.h"
#include "farwrite/internal/namespace.h"
#include "farwrite/memory_kind.h"
#include "farwrite/region.h"
#include "farwrite/status.h"

FARWRITE_BEGIN

/// Opens the CUDA driver (libcuda.so.1), once for the process. From then on the local memory of
/// Channel::write() and read() may lie on a GPU; all work that fills or reads it must be over when
/// the call is made. The first allocation on a GPU, and the first region of a peer that lies on
/// one, do the same.
///
/// kUnavailable without a driver or a GPU; the sentence says what is missing.
inline Status use_cuda() { return internal::taken(fw_use_cuda()); }

/// Where the memory at `address` lies. Host memory unless the CUDA driver has been opened.
inline Result<MemoryKind> kind_of_memory(const void* address) {
  if (address == nullptr) return MemoryKind();
  int gpu = -1;
  Status status = internal::taken(fw_gpu_of_memory(address, &gpu));
  if (!status.ok()) return status;
  return internal::kind_of(gpu);
}

/// Copies bytes between any two places of this process: as copy_bytes(), or by the GPU if either
/// lies on one; then it returns when the GPU has reported the end.
inline Status copy_memory(void* destination, const void* source, std::size_t bytes) {
  return internal::taken(fw_copy_memory(destination, source, bytes));
}

/// Waits for all work that was queued on a stream of `gpu`. `stream` is a CUstream or cudaStream_t
/// as a number; 1 is the legacy default stream, 2 that of this thread. Call it before a transfer of
/// memory on which that stream still works. kInvalidArgument if `gpu` is not a GPU.
inline Status wait_for_stream(MemoryKind gpu, std::uintptr_t stream) {
  return internal::taken(fw_wait_for_stream(gpu.ordinal(), stream));
}

FARWRITE_END
