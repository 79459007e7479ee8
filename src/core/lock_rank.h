// LockRank: the layer of a mutex. It says in which order one thread locks, so that builds which
// check find threads that could deadlock. docs/explanation/thread-model.md says what each mutex
// guards and why some are held together.
//
// Two threads that lock two mutexes in opposite orders deadlock only when they meet. The check
// finds the wrong order in the first thread that takes it. FARWRITE_CHECK_LOCK_ORDER turns it on.
// Debug builds define that macro, and so do all sanitizer presets but tsan, because ThreadSanitizer
// reports wrong orders itself.
#pragma once

#include <cstdint>

namespace farwrite::core {

// From the outermost layer to the innermost. A thread that holds a mutex takes only those of ranks
// further down, and of the same rank only those of a lower level.
enum class LockRank : std::uint8_t {
  // Held while user code runs, which may use another channel.
  kUserCode,
  // What uses the library as programs do: src/grpc and src/tensorflow. They are built apart from
  // the library, so that the check knows only their own mutexes there.
  kProgram,
  kBox,
  kStream,
  kTransfer,
  // Devices and channels, where calls begin.
  kDevice,
  // An arena that grows registers its new segment with all fabrics.
  kArenaGrowth,
  kShm,
  kTcp,
  kVerbs,
  // What the fabrics share.
  kFabric,
  // The tables and queues of devices and channels, into which the fabrics deliver.
  kDeviceTables,
  kMemory,
  kGpu,
  kCore,
};

// Whether a thread may hold several mutexes of one rank and level.
enum class Siblings : std::uint8_t {
  kNever,
  kByAddress,  // the one of the lower address is taken first
  kAnyOrder,   // the check does not look at their order
};

// The base of what has a rank, empty in builds that do not check.
//
// Most mutexes have level 0: under them a thread takes none of their own rank. One of level 1 may
// be held while those of level 0 are taken, and so on up to level 7.
class Ranked {
 public:
#ifdef FARWRITE_CHECK_LOCK_ORDER
  explicit constexpr Ranked(LockRank rank, int level = 0, Siblings siblings = Siblings::kNever,
                            const char* file = __builtin_FILE(), int line = __builtin_LINE())
      : file_(file),
        line_(line),
        place_(static_cast<std::uint8_t>(static_cast<int>(rank) * kLevels + kLevels - 1 - level)),
        siblings_(siblings) {}

 protected:
  // Aborts, and names both mutexes, when this thread holds one that comes later.
  void before_lock() const;
  void locked() const;
  void before_unlock() const;

 private:
  static constexpr int kLevels = 8;

  bool may_follow(const Ranked& held) const;

  const char* file_;  // of the line that makes the mutex: of a field, its class's or constructor's
  int line_;
  std::uint8_t place_;  // in the order of all ranks and levels
  Siblings siblings_;
#else
  explicit constexpr Ranked(LockRank /*rank*/, int /*level*/ = 0,
                            Siblings /*siblings*/ = Siblings::kNever) {}

 protected:
  void before_lock() const {}
  void locked() const {}
  void before_unlock() const {}
#endif
};

}  // namespace farwrite::core
