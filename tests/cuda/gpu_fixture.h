// Opens the CUDA double in place of NVIDIA's driver, once for the process.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

#include "cuda_double/cuda_double.h"
#include "farwrite/memory_kind.h"
#include "gpu/local_memory.h"

namespace farwrite {

// Call it before anything that may open the driver. The driver cannot be opened twice, so tests of
// Farwrite do not reset the double.
inline void open_cuda_double() {
  ::setenv("FARWRITE_CUDA_LIBRARY", FARWRITE_CUDA_DOUBLE, 1);
  ::setenv("CUDA_DOUBLE_DMA_BUF", "1", 1);
  const Status opened = use_cuda();
  ASSERT_TRUE(opened.ok()) << opened.message();
}

inline std::vector<std::byte> bytes_on_gpu(const void* address, std::size_t size) {
  std::vector<std::byte> bytes(size);
  EXPECT_EQ(cuda_double::cudaDoublePeek(reinterpret_cast<cuda_double::CUdeviceptr>(address),
                                        bytes.data(), size),
            cuda_double::kSuccess);
  return bytes;
}

}  // namespace farwrite
