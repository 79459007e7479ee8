#include "core/lock_rank.h"

#ifdef FARWRITE_CHECK_LOCK_ORDER

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iterator>

namespace farwrite::core {
namespace {

const char* name_of(LockRank rank) {
  switch (rank) {
    case LockRank::kUserCode:
      return "user code";
    case LockRank::kProgram:
      return "program";
    case LockRank::kBox:
      return "box";
    case LockRank::kStream:
      return "stream";
    case LockRank::kTransfer:
      return "transfer";
    case LockRank::kDevice:
      return "device";
    case LockRank::kArenaGrowth:
      return "arena growth";
    case LockRank::kShm:
      return "shm";
    case LockRank::kTcp:
      return "tcp";
    case LockRank::kVerbs:
      return "verbs";
    case LockRank::kFabric:
      return "fabric";
    case LockRank::kDeviceTables:
      return "device tables";
    case LockRank::kMemory:
      return "memory";
    case LockRank::kGpu:
      return "gpu";
    case LockRank::kCore:
      return "core";
  }
  return "unknown";
}

// The compiler's path, from the folder of the checkout on.
const char* short_path(const char* path) {
  for (const char* const folder : {"/src/", "/tests/"}) {
    if (const char* const found = std::strstr(path, folder)) return found + 1;
  }
  return path;
}

constexpr std::size_t kMostHeld = 128;

// In the order in which they may be taken.
struct HeldLocks {
  std::array<const Ranked*, kMostHeld> mutexes{};
  std::size_t count = 0;
};
// Without a destructor, so usable until the thread has ended.
constinit thread_local HeldLocks held;

}  // namespace

bool Ranked::may_follow(const Ranked& held) const {
  if (place_ != held.place_) return held.place_ < place_;
  switch (siblings_) {
    case Siblings::kNever:
      return false;
    case Siblings::kByAddress:
      return std::less<>()(&held, this);
    case Siblings::kAnyOrder:
      return true;
  }
  return false;
}

void Ranked::before_lock() const {
  if (held.count == 0) return;
  const Ranked& last = *held.mutexes[held.count - 1];
  if (may_follow(last) && held.count < kMostHeld) return;
  const auto rank = [](const Ranked& mutex) {
    return name_of(static_cast<LockRank>(mutex.place_ / kLevels));
  };
  const auto level = [](const Ranked& mutex) { return kLevels - 1 - mutex.place_ % kLevels; };
  std::fprintf(stderr,
               "lock order: a thread that holds the mutex of %s:%d (%s, level %d) locks that of "
               "%s:%d (%s, level %d); src/core/lock_rank.h has the order\n",
               short_path(last.file_), last.line_, rank(last), level(last), short_path(file_),
               line_, rank(*this), level(*this));
  std::abort();
}

void Ranked::locked() const { held.mutexes[held.count++] = this; }

void Ranked::before_unlock() const {
  const auto begin = held.mutexes.begin();
  const auto end = begin + static_cast<std::ptrdiff_t>(held.count);
  // From the end: a mutex of user code may be held twice.
  const auto found =
      std::find(std::make_reverse_iterator(end), std::make_reverse_iterator(begin), this);
  std::copy(found.base(), end, found.base() - 1);
  --held.count;
}

}  // namespace farwrite::core

#endif
