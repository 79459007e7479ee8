#include "verbs_double/memory_table.h"

#include <sys/mman.h>

#include <atomic>
#include <cstring>

#include "core/unchecked_reads.h"

namespace farwrite::verbs_double {
namespace {

// An rkey differs from the lkey, so that a mix-up is an error.
constexpr std::uint32_t kRemote = 0x80000000;
constexpr std::size_t kWord = sizeof(std::uint64_t);

// Where the bytes are.
std::byte* at(const MemoryRegion& region, std::uint64_t address) {
  if (region.pages == nullptr) return reinterpret_cast<std::byte*>(address);
  return region.pages + (address - reinterpret_cast<std::uint64_t>(region.addr));
}

}  // namespace

MemoryRegion::~MemoryRegion() {
  if (pages != nullptr) ::munmap(pages, length);
}

ibv_mr* MemoryTable::add_dma_buf(ibv_pd* domain, int fd, std::uint64_t offset, std::size_t bytes,
                                 void* address, unsigned access) {
  void* const pages =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, static_cast<off_t>(offset));
  if (pages == MAP_FAILED) return nullptr;
  auto region = std::make_shared<MemoryRegion>();
  region->pages = static_cast<std::byte*>(pages);
  region->context = domain->context;
  region->pd = domain;
  region->addr = address;
  region->length = bytes;
  region->access = access;
  return keep(std::move(region));
}

ibv_mr* MemoryTable::add(ibv_pd* domain, void* address, std::size_t bytes, unsigned access) {
  auto region = std::make_shared<MemoryRegion>();
  region->context = domain->context;
  region->pd = domain;
  region->addr = address;
  region->length = bytes;
  region->access = access;
  return keep(std::move(region));
}

ibv_mr* MemoryTable::keep(std::shared_ptr<MemoryRegion> region) {
  const std::lock_guard lock(mutex_);
  region->handle = next_++;
  region->lkey = region->handle << 8 | 0x5a;
  region->rkey = region->lkey | kRemote;
  regions_.emplace(region->lkey, region);
  return region.get();
}

bool MemoryTable::remove(ibv_mr* region) {
  std::shared_ptr<MemoryRegion> gone;
  {
    const std::lock_guard lock(mutex_);
    for (auto at = regions_.begin(); at != regions_.end(); ++at) {
      if (at->second.get() != region) continue;
      gone = std::move(at->second);
      regions_.erase(at);
      break;
    }
  }
  if (gone == nullptr) return false;
  const std::lock_guard lock(gone->moving);
  gone->dead = true;
  return true;
}

std::shared_ptr<MemoryRegion> MemoryTable::find(const Place& place, std::uint64_t bytes,
                                                unsigned access,
                                                std::shared_lock<std::shared_mutex>* lock) {
  if (((place.key & kRemote) != 0) != place.remote) return nullptr;
  std::shared_ptr<MemoryRegion> region;
  {
    const std::lock_guard guard(mutex_);
    const auto at = regions_.find(place.key & ~kRemote);
    if (at == regions_.end()) return nullptr;
    region = at->second;
  }
  if (region->pd != place.domain || (region->access & access) != access) return nullptr;
  const auto base = reinterpret_cast<std::uint64_t>(region->addr);
  if (place.address < base || bytes > region->length ||
      place.address - base > region->length - bytes) {
    return nullptr;
  }
  *lock = std::shared_lock(region->moving);
  if (!region->dead) return region;  // and remove() waits, so it outlives `lock`
  lock->unlock();
  return nullptr;
}

bool MemoryTable::allows(const Place& place, std::uint64_t bytes, unsigned access) {
  if (bytes == 0) return true;
  std::shared_lock<std::shared_mutex> lock;
  return find(place, bytes, access, &lock) != nullptr;
}

bool MemoryTable::read(const Place& place, void* to, std::size_t bytes, unsigned access) {
  if (bytes == 0) return true;
  std::shared_lock<std::shared_mutex> lock;
  const auto region = find(place, bytes, access, &lock);
  if (region == nullptr) return false;
  const core::UncheckedReads unchecked((access & IBV_ACCESS_REMOTE_READ) != 0);
  std::memcpy(to, at(*region, place.address), bytes);
  return true;
}

bool MemoryTable::write(const Place& place, const void* from, std::size_t bytes, unsigned access) {
  if (bytes == 0) return true;
  std::shared_lock<std::shared_mutex> lock;
  const auto region = find(place, bytes, access, &lock);
  if (region == nullptr) return false;
  std::byte* const to = at(*region, place.address);
  const auto* source = static_cast<const std::byte*>(from);
  if (bytes < kWord || (place.address + bytes) % kWord != 0) {
    std::memcpy(to, source, bytes);
    return true;
  }
  const std::size_t body = bytes - kWord;
  std::memcpy(to, source, body);
  std::uint64_t last = 0;
  std::memcpy(&last, source + body, kWord);
  std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(to + body))
      .store(last, std::memory_order_release);
  return true;
}

bool MemoryTable::compare_swap(const Place& place, std::uint64_t expect, std::uint64_t swap,
                               std::uint64_t* before) {
  std::shared_lock<std::shared_mutex> lock;
  const auto region = find(place, kWord, IBV_ACCESS_REMOTE_ATOMIC, &lock);
  if (region == nullptr) return false;
  std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(place.address))
      .compare_exchange_strong(expect, swap);
  *before = expect;
  return true;
}

bool MemoryTable::fetch_add(const Place& place, std::uint64_t add, std::uint64_t* before) {
  std::shared_lock<std::shared_mutex> lock;
  const auto region = find(place, kWord, IBV_ACCESS_REMOTE_ATOMIC, &lock);
  if (region == nullptr) return false;
  *before = std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(place.address))
                .fetch_add(add);
  return true;
}

std::size_t MemoryTable::live() const {
  const std::lock_guard lock(mutex_);
  return regions_.size();
}

std::uint64_t MemoryTable::ever() const {
  const std::lock_guard lock(mutex_);
  return next_ - 1;
}

bool MemoryTable::uses(const ibv_pd* domain) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [key, region] : regions_) {
    if (region->pd == domain) return true;
  }
  return false;
}

}  // namespace farwrite::verbs_double
