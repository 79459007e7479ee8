// Control messages: what two devices tell each other after the handshake. They hand out addresses
// and leases (paper section 3.1: a plain RPC off the critical path); no payload of a region.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/region.h"
#include "farwrite/bytes.h"
#include "farwrite/status.h"

namespace farwrite::device {

// "Open the region published under this name; wait for it up to `wait_ms`."
struct LookupMessage {
  std::uint64_t request = 0;
  std::uint64_t wait_ms = 0;
  std::string name;

  template <typename Wire>
  void fields(Wire& wire);
  std::vector<std::byte> to_bytes() const;
  static Result<LookupMessage> from_bytes(ByteView bytes);
};

// "Open this region."
struct OpenMessage {
  std::uint64_t request = 0;
  RegionDescriptor descriptor;

  template <typename Wire>
  void fields(Wire& wire);
  std::vector<std::byte> to_bytes() const;
  static Result<OpenMessage> from_bytes(ByteView bytes);
};

// The answer to either: a region and its lease, or why not.
struct ReplyMessage {
  std::uint64_t request = 0;
  Status status;
  RegionDescriptor descriptor;
  std::uint64_t lease = 0;  // 0: the region needs none (landing memory)
  std::string description;

  template <typename Wire>
  void fields(Wire& wire);
  std::vector<std::byte> to_bytes() const;
  static Result<ReplyMessage> from_bytes(ByteView bytes);
};

// "We no longer look at this."
struct ReleaseMessage {
  std::uint64_t lease = 0;

  template <typename Wire>
  void fields(Wire& wire);
  std::vector<std::byte> to_bytes() const;
  static Result<ReleaseMessage> from_bytes(ByteView bytes);
};

}  // namespace farwrite::device
