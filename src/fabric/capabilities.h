// Capabilities: what a fabric can do.
#pragma once

#include <cstdint>

namespace farwrite::fabric {

// The layers above choose by these, never by the fabric's name.
struct Capabilities {
  std::uint64_t max_write_bytes = 0;    // one write or read; longer ones are chunked by the fabric
  std::uint64_t max_message_bytes = 0;  // one message
  bool has_immediate = false;           // a notification can ride on the write itself
  bool has_atomics = false;             // remote fetch-and-add
  bool whole_message_order = false;     // a tail flag in one write is seen last
  bool maps_peer_memory = false;        // RemoteWindow::mapped is set: aliases cost no copy
  bool ends_in_post = false;            // writes and reads are over when post() returns
  bool cpu_free_target = false;         // the target needs no thread for a write to land
  // The owner's process sends what is read (may_read()), and takes the bytes of a lane's reads in
  // their order.
  bool serves_reads = false;
  bool gpu_exports = false;          // register_segment() takes memory of a GPU
  bool gpu_landing = false;          // grant() does
  bool gpu_copies = false;           // post() lets a GPU copy from and to its memory
  bool may_refuse_segments = false;  // register_segment() may fail where other fabrics suffice
  int numa_node = -1;                // where segments should lie; -1: no node is better than others
};

}  // namespace farwrite::fabric
