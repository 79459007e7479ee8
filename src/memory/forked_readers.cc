#include "memory/forked_readers.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>

#include "core/mutex.h"

namespace farwrite::memory {

constinit std::atomic<std::uint64_t> ForkedReaders::newest_{0};
constinit std::atomic<std::uint64_t> ForkedReaders::forks_{0};

namespace {

constexpr std::size_t kWitnessBytes = 4096;
constexpr int kNoWitness = -1;

// Forks in a row that are watched by one file. With a kNoWitness they count as living for ever.
struct Generation {
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  int witness = kNoWitness;
};

// Bounds the descriptors: further forks share the newest generation, which lasts as long as any.
constexpr std::size_t kMostGenerations = 64;

// Locked from before a fork until after it, so a child finds it whole. Nothing is allocated under
// the lock: another library's fork handlers may hold the locks of malloc by then.
struct ForkLog {
  core::Mutex mutex{core::LockRank::kMemory};
  std::array<Generation, kMostGenerations> living FW_GUARDED_BY(mutex);
  std::size_t count FW_GUARDED_BY(mutex) = 0;
  std::uint64_t ended FW_GUARDED_BY(mutex) = 0;
  std::uint64_t number FW_GUARDED_BY(mutex) = 0;  // of the newest fork
  void* mapped FW_GUARDED_BY(mutex) = nullptr;    // of the fork under way
};
constinit ForkLog watch;

bool still_mapped(const Generation& generation) {
  return generation.witness == kNoWitness ||
         ::fcntl(generation.witness, F_ADD_SEALS, F_SEAL_WRITE) != 0;
}

void forget_ended() FW_REQUIRES(watch.mutex) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < watch.count; ++i) {
    if (still_mapped(watch.living[i])) {
      watch.living[kept++] = watch.living[i];
    } else {
      ::close(watch.living[i].witness);
      ++watch.ended;
    }
  }
  watch.count = kept;
}

void close_witnesses() FW_REQUIRES(watch.mutex) {
  for (std::size_t i = 0; i < watch.count; ++i) {
    if (watch.living[i].witness != kNoWitness) ::close(watch.living[i].witness);
  }
  watch.count = 0;
}

std::uint64_t newest_living() FW_REQUIRES(watch.mutex) {
  return watch.count == 0 ? 0 : watch.living[watch.count - 1].last;
}

int make_witness() {
  const int fd = ::memfd_create("farwrite-fork", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0 || ::ftruncate(fd, kWitnessBytes) == 0) return fd;
  ::close(fd);
  return kNoWitness;
}

// For the child to inherit.
void map_witness(Generation& generation) FW_REQUIRES(watch.mutex) {
  void* const mapped =
      ::mmap(nullptr, kWitnessBytes, PROT_READ | PROT_WRITE, MAP_SHARED, generation.witness, 0);
  if (mapped != MAP_FAILED) {
    watch.mapped = mapped;
    return;
  }
  ::close(generation.witness);
  generation.witness = kNoWitness;
}

// The generation that the fork belongs to: one of its own if there is a descriptor for it.
Generation& join_generation(std::uint64_t number) FW_REQUIRES(watch.mutex) {
  if (watch.count < kMostGenerations) {
    const int witness = make_witness();
    if (witness != kNoWitness || watch.count == 0) {
      watch.living[watch.count] = {number, number, witness};
      return watch.living[watch.count++];
    }
  }
  Generation& newest = watch.living[watch.count - 1];
  newest.last = number;
  return newest;
}

}  // namespace

std::uint64_t ForkedReaders::refresh() {
  const core::Lock lock(watch.mutex);
  if (watch.count == 0) return watch.ended;
  forget_ended();
  newest_.store(newest_living(), std::memory_order_relaxed);
  return watch.ended;
}

void ForkedReaders::forget_all() {
  const core::Lock lock(watch.mutex);
  close_witnesses();
  ++watch.ended;
  newest_.store(0, std::memory_order_relaxed);
}

bool ForkedReaders::may_read_between(std::uint64_t made, std::uint64_t given_up) {
  const core::Lock lock(watch.mutex);
  for (std::size_t i = 0; i < watch.count; ++i) {
    if (watch.living[i].first <= given_up && watch.living[i].last > made) return true;
  }
  return false;
}

std::uint64_t ForkedReaders::newest_fork() {
  const core::Lock lock(watch.mutex);
  return watch.number;
}

void ForkedReaders::before_fork(bool inherits) {
  watch.mutex.lock();
  forget_ended();
  ++watch.number;
  watch.mapped = nullptr;
  if (inherits) {
    Generation& generation = join_generation(watch.number);
    if (generation.witness != kNoWitness) map_witness(generation);
  }
  // Before the kernel copies this process: what another thread gives up from then on is watched.
  newest_.store(newest_living(), std::memory_order_seq_cst);
}

void ForkedReaders::after_fork_in_parent() {
  if (watch.mapped != nullptr) ::munmap(watch.mapped, kWitnessBytes);
  // After the copy: what was made meanwhile may be in it.
  forks_.store(watch.number, std::memory_order_relaxed);
  watch.mutex.unlock();
}

void ForkedReaders::after_fork_in_child() {
  // Its mapping of the witness stays: that is what its parent sees of it.
  close_witnesses();
  newest_.store(0, std::memory_order_relaxed);
  forks_.store(watch.number, std::memory_order_relaxed);
  watch.mutex.unlock();
}

}  // namespace farwrite::memory
