// Reading and writing all of a range of bytes, however many system calls that takes.
#pragma once

#include <cstdint>

#include "farwrite/bytes.h"

namespace farwrite::box {

// Writes every byte at the descriptor's position. Returns 0, or the errno of the call that failed.
int write_whole(int fd, ByteView bytes);

// Reads from `offset` on until `out` is full or the file ends. Returns 0 or an errno; `read` is the
// number of bytes that were read.
int read_whole(int fd, std::uint64_t offset, MutableByteView out, std::size_t& read);

}  // namespace farwrite::box
