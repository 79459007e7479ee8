/// @file
/// MemoryKind: where memory lies, in the host's memory or on a GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "farwrite/export.h"
#include "farwrite/status.h"

namespace farwrite {

/// Where memory lies: in the host's memory, or on one of the GPUs that this process sees.
class FARWRITE_API MemoryKind {
 public:
  /// The host's memory.
  constexpr MemoryKind() = default;
  /// The memory of GPU `ordinal`, as the CUDA driver numbers them for this process
  /// (CUDA_VISIBLE_DEVICES).
  static constexpr MemoryKind cuda(int ordinal) { return MemoryKind(ordinal); }
  /// Parses "host", "cuda" (GPU 0) or "cuda:N". kInvalidArgument for anything else.
  static Result<MemoryKind> parse(std::string_view text);

  /// True for the memory of a GPU: the CPU must not touch it.
  constexpr bool on_gpu() const { return ordinal_ >= 0; }
  /// The number of the GPU; -1 for the host's memory.
  constexpr int ordinal() const { return ordinal_; }
  /// "host" or "cuda:0".
  std::string to_string() const;

  /// True if both are the host's memory, or that of one GPU.
  friend constexpr bool operator==(MemoryKind one, MemoryKind other) {
    return one.ordinal_ == other.ordinal_;
  }
  /// True if they differ.
  friend constexpr bool operator!=(MemoryKind one, MemoryKind other) { return !(one == other); }

 private:
  constexpr explicit MemoryKind(int ordinal) : ordinal_(ordinal) {}

  int ordinal_ = -1;
};

/// Opens the CUDA driver (libcuda.so.1), once for the process. From then on the local memory of
/// Channel::write() and read() may lie on a GPU; all work that fills or reads it must be over when
/// the call is made. The first allocation on a GPU, and the first region of a peer that lies on
/// one, do the same.
///
/// kUnavailable without a driver or a GPU; the sentence says what is missing.
FARWRITE_API Status use_cuda();

/// Where the memory at `address` lies. Host memory unless the CUDA driver has been opened.
FARWRITE_API Result<MemoryKind> kind_of_memory(const void* address);

/// Copies bytes between any two places of this process: as copy_bytes(), or by the GPU if either
/// lies on one; then it returns when the GPU has reported the end.
FARWRITE_API Status copy_memory(void* destination, const void* source, std::size_t bytes);

/// Waits for all work that was queued on a stream of `gpu`. `stream` is a CUstream or cudaStream_t
/// as a number; 1 is the legacy default stream, 2 that of this thread. Call it before a transfer of
/// memory on which that stream still works. kInvalidArgument if `gpu` is not a GPU.
FARWRITE_API Status wait_for_stream(MemoryKind gpu, std::uintptr_t stream);

}  // namespace farwrite
