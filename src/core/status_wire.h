// A Status on the wire: u8 code, string message (at most 4096 bytes).
#pragma once

#include <cstddef>
#include <vector>

#include "farwrite/bytes.h"
#include "farwrite/status.h"

namespace farwrite::core {

// A longer message is cut.
std::vector<std::byte> status_to_bytes(const Status& status);
// Decodes into `status`; what it returns tells whether the bytes were well-formed. A later version
// may append fields.
Status status_from_bytes(ByteView bytes, Status& status);

}  // namespace farwrite::core
