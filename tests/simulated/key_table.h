// KeyTable: the memory that a simulated peer may touch, by key.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>

#include "core/region.h"
#include "farwrite/bytes.h"
#include "farwrite/status.h"
#include "memory/segment.h"

namespace farwrite::fabric {

// What a network card's table of memory keys is on verbs: the target's own check of every access.
// Keeps no memory alive. A key is never used again; a removed one is remembered, so that a late
// access is told apart from a made-up key. Thread-compatible (the network's lock).
class KeyTable {
 public:
  void add(std::uint64_t key, const std::shared_ptr<memory::Segment>& segment, std::uint64_t offset,
           std::uint64_t length, Access access);
  // Of no effect if there is no such key, or it was removed before.
  void remove(std::uint64_t key);
  bool holds(std::uint64_t key) const { return entries_.contains(key); }

  // A stretch that may be touched: the bytes, and what keeps them mapped meanwhile.
  struct Reach {
    std::shared_ptr<memory::Segment> segment;
    std::byte* data = nullptr;
  };
  // `offset` counts from the start of the segment. kNotFound for an unknown key,
  // kFailedPrecondition for a removed one (unless `even_removed`), kPermissionDenied for the wrong
  // kind of access, kOutOfRange for bytes beside the key's.
  Result<Reach> reach(std::uint64_t key, std::uint64_t offset, std::uint64_t length, Access access,
                      const ErrorContext& where, bool even_removed = false) const;

 private:
  struct Entry {
    std::weak_ptr<memory::Segment> segment;
    std::uint64_t offset = 0;
    std::uint64_t length = 0;
    Access access = Access::kRead;
    bool removed = false;
  };
  std::unordered_map<std::uint64_t, Entry> entries_;
};

}  // namespace farwrite::fabric
