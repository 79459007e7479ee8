// A Status on the wire: u8 code, string message (at most 4096 bytes).
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "farwrite/bytes.h"
#include "farwrite/status.h"

namespace farwrite::core {

// A longer message is cut.
std::vector<std::byte> status_to_bytes(const Status& status);
// Decodes into `status`; what it returns tells whether the bytes were well-formed. A later version
// may append fields.
Status status_from_bytes(ByteView bytes, Status& status);

// A field: a Status behind its u32 length (fields.h).
struct StatusField {
  Status& status;
  std::size_t most;

  template <typename Wire>
  void fields(Wire& wire) {
    std::vector<std::byte> bytes;
    if constexpr (!Wire::kReads) bytes = status_to_bytes(status);
    wire.sized(bytes, most);
    if constexpr (Wire::kReads) {
      if (!wire.ok()) return;
      Status read = status_from_bytes({bytes.data(), bytes.size()}, status);
      if (!read.ok()) wire.fail(std::move(read));
    }
  }
};
inline StatusField status(Status& of, std::size_t most) { return {of, most}; }

}  // namespace farwrite::core
