// Memory of GPUs in this process of the library: what it does is written in farwrite/gpu.h.
#pragma once

#include <cstdint>

#include "farwrite/memory_kind.h"
#include "farwrite/status.h"

namespace farwrite {

Status use_cuda();

Result<MemoryKind> kind_of_memory(const void* address);

Status wait_for_stream(MemoryKind gpu, std::uintptr_t stream);

}  // namespace farwrite
