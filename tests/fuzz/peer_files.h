// Descriptors that a peer may send along with a packet: honest ones and others.
#pragma once

#include <cstdint>
#include <vector>

#include "core/unique_fd.h"

namespace farwrite::fuzz {

enum class PeerFile : std::uint8_t {
  kExport,    // a page that is sealed, not writable
  kLanding,   // a page that is sealed, writable
  kMailbox,   // a mailbox of one lane
  kUnsealed,  // a page that its owner could cut off
  kDoorbell,  // an eventfd
  kPipe,
  kNull,  // /dev/null
  kCount,
};

inline constexpr std::uint64_t kPageBytes = 4096;

// Another descriptor of the file of this kind; one file per kind and process.
core::UniqueFd open_peer_file(PeerFile file);
// One for each of the lowest bytes of `kinds`, taken modulo the kinds.
std::vector<core::UniqueFd> open_peer_files(const std::vector<std::uint8_t>& kinds);

}  // namespace farwrite::fuzz
