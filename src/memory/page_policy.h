// How the kernel should back a mapping: huge pages, NUMA node, now or at the first touch.
#pragma once

#include <cstddef>
#include <cstdint>

#include "farwrite/status.h"

namespace farwrite::memory {

// Whether the kernel may back shared memory with transparent huge pages after MADV_HUGEPAGE. Read
// once from /sys/kernel/mm/transparent_hugepage; many distributions say "never".
bool transparent_huge_pages_for_shared_memory();

// The NUMA node of a mapping's pages.
struct NumaPlacement {
  int node = -1;         // -1: the kernel's choice
  bool required = true;  // false: when the node is full, other nodes back the pages
};

// Sets the node of the pages of a mapping, before they are touched (mbind(2)).
Status place_on_node(std::byte* base, std::uint64_t bytes, const NumaPlacement& placement);
// What place_on_node() would return for a new mapping.
Status check_placement(const NumaPlacement& placement);

// Backs every page of a writable mapping now. kResourceExhausted when the kernel has no memory for
// it, where touching the pages would kill the process instead.
Status populate_for_writing(std::byte* base, std::uint64_t bytes);

// Maps pages that already exist; failure costs speed only, so it is ignored.
void populate_for_reading(std::byte* base, std::uint64_t bytes);

// Takes the pages out of a shared mapping, whose file keeps them, in short steps. Before a large
// unmapping, which would keep every other thread from mapping and from page faults meanwhile.
void drop_from_mapping(std::byte* base, std::uint64_t bytes);

}  // namespace farwrite::memory
