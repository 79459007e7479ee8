// How the kernel should back a mapping: huge pages, NUMA node, now or at the first touch.
#pragma once

#include <cstddef>
#include <cstdint>

#include "farwrite/status.h"

namespace farwrite::memory {

// Whether the kernel may back shared memory with transparent huge pages after MADV_HUGEPAGE. Read
// once from /sys/kernel/mm/transparent_hugepage; many distributions say "never".
bool transparent_huge_pages_for_shared_memory();

// Binds the pages of a mapping to `node`, before they are touched (mbind(2), MPOL_BIND).
Status bind_to_node(std::byte* base, std::uint64_t bytes, int node);

// Backs every page of a writable mapping now. kResourceExhausted when the kernel has no memory for
// it, where touching the pages would kill the process instead.
Status populate_for_writing(std::byte* base, std::uint64_t bytes);

// Maps pages that already exist; failure costs speed only, so it is ignored.
void populate_for_reading(std::byte* base, std::uint64_t bytes);

}  // namespace farwrite::memory
