// InheritedMapping: shared memory that a forked child gets as a private, copy-on-write view.
//
// The mapping itself is not inherited (MADV_DONTFORK): it is shared, so a child could write into
// its parent's memory, or into a peer's. In the child, before fork(2) returns there, the same file
// is mapped at the same addresses again, privately. The child reads what its parent had, and its
// writes reach nothing. What the parent or a peer writes later shows in pages that the child has
// not written. Children of raw clone(2) get nothing.
//
// A witness shows the owner of memory that children of a reader still live. It is a file that the
// owner has as well. A child maps its first page, shared, where nothing looks, and keeps the
// mapping until it and its descendants have ended or run another program. Until then the kernel
// refuses to seal the file against writing (forked_readers.h uses the same rule within one
// process).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "core/fork_guard.h"

namespace farwrite::memory {

// Names a mapping of `fd` for as long as it lives; goes before the mapping and the descriptor do.
class InheritedMapping {
 public:
  InheritedMapping(std::byte* base, std::uint64_t bytes, int fd);
  // A witness, whose `fd` is a memory file that may be written and sealed.
  explicit InheritedMapping(int witness) : InheritedMapping(nullptr, 0, witness) {}
  ~InheritedMapping();
  InheritedMapping(const InheritedMapping&) = delete;
  InheritedMapping& operator=(const InheritedMapping&) = delete;

  // Calls `use` with the mapping that has `address`, while no mapping goes; false if none has. Not
  // in a forked child, whose memory is its own.
  static bool find(const std::byte* address,
                   const std::function<void(const InheritedMapping&)>& use);
  const std::byte* base() const { return base_; }
  std::uint64_t bytes() const { return bytes_; }
  int fd() const { return fd_; }

 private:
  friend struct ForkHandlers;

  std::byte* const base_;  // null: of a witness
  const std::uint64_t bytes_;
  const int fd_;
  const core::ForkGuard guard_;
  InheritedMapping* previous_ = nullptr;
  InheritedMapping* next_ = nullptr;
};

}  // namespace farwrite::memory
