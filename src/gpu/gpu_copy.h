// Copies to, from and between GPUs.
#pragma once

#include <cstdint>
#include <string_view>

#include "farwrite/status.h"
#include "gpu/gpu.h"

namespace farwrite::gpu {

// kUnsupported if these are two GPUs; null is host memory.
Status check_one_gpu(const Gpu* one, const Gpu* other, std::string_view operation);

// Copies `bytes` bytes by a stream of `gpu`, whose memory at least one of both is; the other may be
// host memory of this process. Returns when the GPU has reported the end of the copy by an event:
// polls briefly, then blocks. After an error the destination's bytes are undefined, and nothing of
// the copy is under way.
Status copy(const Gpu& gpu, void* destination, const void* source, std::uint64_t bytes,
            std::string_view operation);

}  // namespace farwrite::gpu
