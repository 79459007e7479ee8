// Staging: copies of tensors' bytes in registered memory, made because the tensors themselves lie
// where they cannot be lent.
#pragma once

#include <cstdint>
#include <memory>

#include "farwrite/c_api.h"

namespace farwrite::plugin {

// Registered memory, which its last reference frees. A reference may point behind its start.
using Staged = std::shared_ptr<const void>;

// A copy of `bytes` at `data`. Null if there is no room, even without what is held.
Staged stage(fw_device* device, const void* data, std::uint64_t bytes);
// The same without the copy: the caller writes all of it to `memory`.
Staged stage_room(fw_device* device, std::uint64_t bytes, void** memory);
// The same for bytes that this processor does not copy: a device writes them.
Staged registered_room(fw_device* device, std::uint64_t bytes, void** memory);

// What is called when registered memory is short: lets go of what is held in it. True: there was
// something. One, for as long as the process lives.
void release_when_short(bool (*release)());

// A copy may be held, to be lent again. All that are held take at most half of registered memory.
bool may_hold(fw_device* device, std::uint64_t bytes);
// The same memory, and counted as held until its last reference goes: a lease may be that.
Staged hold(Staged staged, std::uint64_t bytes);
// Now.
std::uint64_t held_copies();
std::uint64_t held_copy_bytes();

}  // namespace farwrite::plugin
