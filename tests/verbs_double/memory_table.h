// MemoryTable: the memory regions (MRs) of a software RNIC, and every movement of their bytes.
//
// Each movement checks key, protection domain, bounds and access at the moment it moves. Keys are
// never used twice, so a stale one is always found out.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

namespace farwrite::verbs_double {

struct MemoryRegion : ibv_mr {
  MemoryRegion() : ibv_mr{} {}
  ~MemoryRegion();
  MemoryRegion(const MemoryRegion&) = delete;
  MemoryRegion& operator=(const MemoryRegion&) = delete;

  std::byte* pages = nullptr;  // of a dma-buf, mapped; null: they are at `addr`
  unsigned access = 0;
  std::shared_mutex moving;  // shared while bytes move
  bool dead = false;         // under `moving`
};

// A piece of registered memory, as a work request names it.
struct Place {
  ibv_pd* domain = nullptr;
  std::uint64_t address = 0;
  std::uint32_t key = 0;
  bool remote = false;  // `key` is an rkey
};

// Thread-safe.
class MemoryTable {
 public:
  ibv_mr* add(ibv_pd* domain, void* address, std::size_t bytes, unsigned access);
  // The memory behind the descriptor, found at `address`. Null, with errno, if it cannot be mapped.
  ibv_mr* add_dma_buf(ibv_pd* domain, int fd, std::uint64_t offset, std::size_t bytes,
                      void* address, unsigned access);
  // Waits for movements under way. False if there is no such region.
  bool remove(ibv_mr* region);

  // Whether `bytes` may be moved there now; always, if it is none.
  bool allows(const Place& place, std::uint64_t bytes, unsigned access);
  // False, having moved nothing, if the region does not allow it. `access` is what it needs.
  bool read(const Place& place, void* to, std::size_t bytes, unsigned access);
  // The last aligned word is stored with release order, so that it can serve as a flag.
  bool write(const Place& place, const void* from, std::size_t bytes, unsigned access);
  // Swaps in `swap` if the 8 bytes are `expect`, or adds `add`. Gives what was there.
  bool compare_swap(const Place& place, std::uint64_t expect, std::uint64_t swap,
                    std::uint64_t* before);
  bool fetch_add(const Place& place, std::uint64_t add, std::uint64_t* before);

  std::size_t live() const;
  std::uint64_t ever() const;
  bool uses(const ibv_pd* domain) const;

 private:
  ibv_mr* keep(std::shared_ptr<MemoryRegion> region);
  // Null, or the region with `moving` held in `lock`.
  std::shared_ptr<MemoryRegion> find(const Place& place, std::uint64_t bytes, unsigned access,
                                     std::shared_lock<std::shared_mutex>* lock);

  mutable std::mutex mutex_;
  std::unordered_map<std::uint32_t, std::shared_ptr<MemoryRegion>> regions_;  // by lkey
  std::uint32_t next_ = 1;
};

}  // namespace farwrite::verbs_double
