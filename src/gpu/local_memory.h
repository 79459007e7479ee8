// Memory of GPUs in this process of the library: what it does is written in farwrite/gpu.h.
#pragma once

#include <cstdint>

#include "core/export.h"
#include "farwrite/memory_kind.h"
#include "farwrite/status.h"

namespace farwrite {

FARWRITE_API Status use_cuda();

FARWRITE_API Result<MemoryKind> kind_of_memory(const void* address);

FARWRITE_API Status wait_for_stream(MemoryKind gpu, std::uintptr_t stream);

}  // namespace farwrite
