// Gives large memory back to the kernel in a thread made for that.
//
// The kernel takes about 150 ms for each GB of pages that it takes back. The last owner of a
// segment may be a control loop, close() or a Python thread with the interpreter's lock, and none
// of them should spend that time.
#pragma once

#include <cstdint>
#include <functional>

namespace farwrite::memory {

// Runs `release` soon, in a thread of the process that ends when there is no more to release. At
// once, in the caller, for less than 4 MiB, in a forked child, and where no thread can be started.
// `release` must not wait.
void release_in_background(std::uint64_t bytes, std::function<void()> release);

// Returns once nothing is being released. The code that takes large memory calls it first, so that
// a process does not hold what it has given up beside what it takes.
void wait_for_background_releases();

}  // namespace farwrite::memory
