// Memory that the system gives, and the allocations of C++.
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <new>

#include "strike.h"

namespace {

using injection::fail;

bool no_memory(const void* caller, const char* name) {
  return injection::strike_ours(caller, injection::kMemory, name);
}

bool not_allocated(const void* caller, std::size_t bytes) {
  injection::Orders* const all = injection::orders();
  if (all == nullptr || all->plans[0].process == 0) return false;
  const std::uint32_t kinds =
      bytes >= all->plans[0].least ? std::uint32_t{injection::kAllocations} : 0U;
  return injection::strike_ours(caller, kinds, "operator new");
}

void* allocate(std::size_t bytes, std::size_t alignment) {
  if (alignment <= alignof(std::max_align_t)) return std::malloc(bytes == 0 ? 1 : bytes);
  return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

void* allocate_or_throw(const void* caller, std::size_t bytes, std::size_t alignment) {
  void* const memory = not_allocated(caller, bytes) ? nullptr : allocate(bytes, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t bytes) { return allocate_or_throw(CALLER, bytes, 1); }
void* operator new[](std::size_t bytes) { return allocate_or_throw(CALLER, bytes, 1); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate_or_throw(CALLER, bytes, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return not_allocated(CALLER, bytes) ? nullptr : allocate(bytes, 1);
}
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return not_allocated(CALLER, bytes) ? nullptr : allocate(bytes, 1);
}
void* operator new(std::size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return not_allocated(CALLER, bytes) ? nullptr
                                      : allocate(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

extern "C" {

void* mmap(void* at, size_t bytes, int protection, int flags, int descriptor,
           off_t offset) noexcept {
  if (no_memory(CALLER, "mmap")) return fail<void*>(ENOMEM, MAP_FAILED);
  BEHIND(mmap);
  return behind(at, bytes, protection, flags, descriptor, offset);
}

void* mmap64(void* at, size_t bytes, int protection, int flags, int descriptor,
             off64_t offset) noexcept {
  if (no_memory(CALLER, "mmap")) return fail<void*>(ENOMEM, MAP_FAILED);
  BEHIND(mmap64);
  return behind(at, bytes, protection, flags, descriptor, offset);
}

void* mremap(void* old, size_t bytes, size_t wanted, int flags, ...) noexcept {
  va_list rest;
  va_start(rest, flags);
  void* const at = va_arg(rest, void*);
  va_end(rest);
  if (no_memory(CALLER, "mremap")) return fail<void*>(ENOMEM, MAP_FAILED);
  BEHIND(mremap);
  return behind(old, bytes, wanted, flags, at);
}

int ftruncate(int descriptor, off_t bytes) noexcept {
  if (no_memory(CALLER, "ftruncate")) return fail(ENOSPC);
  BEHIND(ftruncate);
  return behind(descriptor, bytes);
}

int ftruncate64(int descriptor, off64_t bytes) noexcept {
  if (no_memory(CALLER, "ftruncate")) return fail(ENOSPC);
  BEHIND(ftruncate64);
  return behind(descriptor, bytes);
}

int fallocate(int descriptor, int mode, off_t offset, off_t bytes) {
  if (no_memory(CALLER, "fallocate")) return fail(ENOSPC);
  BEHIND(fallocate);
  return behind(descriptor, mode, offset, bytes);
}

// Steps, between which a process may die.

void* memcpy(void* to, const void* from, size_t bytes) noexcept {
  injection::strike_ours(CALLER, 0, "memcpy");
  BEHIND(memmove);
  return behind(to, from, bytes);
}

int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  injection::strike_ours(CALLER, 0, "pthread_mutex_lock");
  BEHIND(pthread_mutex_lock);
  return behind(mutex);
}

int pthread_mutex_unlock(pthread_mutex_t* mutex) noexcept {
  injection::strike_ours(CALLER, 0, "pthread_mutex_unlock");
  BEHIND(pthread_mutex_unlock);
  return behind(mutex);
}
}
