// MappedSegment: a peer's memfd, mapped into this process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "core/fork_guard.h"
#include "core/unique_fd.h"
#include "farwrite/status.h"
#include "memory/inherited_mapping.h"

namespace farwrite::memory {

// Immutable, so any thread may use it. Unmapped and closed by the last owner. A forked child has a
// private, copy-on-write view of it, and never writes into the peer's memory. The peer may change
// the bytes at any moment: copy what you must check into private memory first.
class MappedSegment {
 public:
  // Takes over `fd`, a memfd received from a peer. Refused (kProtocolError) when it is no regular
  // memory file, is not sealed against shrinking (an access past the end would raise SIGBUS here),
  // or its size is not exactly `expected_bytes`; kPermissionDenied when `writable` but its seals
  // forbid writing. Pages the peer already backed are mapped at once; a sparse file is never filled
  // on its behalf.
  static Result<std::shared_ptr<MappedSegment>> map(core::UniqueFd fd, std::uint64_t expected_bytes,
                                                    bool writable);
  ~MappedSegment();
  MappedSegment(const MappedSegment&) = delete;
  MappedSegment& operator=(const MappedSegment&) = delete;

  const std::byte* base() const { return base_; }
  std::byte* mutable_base() const;  // aborts unless writable()
  std::uint64_t bytes() const { return bytes_; }
  bool writable() const { return writable_; }

 private:
  MappedSegment() = default;

  std::byte* base_ = nullptr;
  std::uint64_t bytes_ = 0;
  bool writable_ = false;
  core::ForkGuard guard_;
  core::UniqueFd fd_;
  std::optional<InheritedMapping> inherited_;  // goes before the memory and its descriptor
};

}  // namespace farwrite::memory
