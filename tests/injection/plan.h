// What the library is to do, in memory that the test's process and its peers share.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>

namespace injection {

// What is counted. A call counts for one kind, and each call of Farwrite's libraries also as a
// step.
enum Kind : std::uint32_t {
  kDescriptors = 1,   // calls that make a descriptor
  kMemory = 2,        // mmap, mremap, ftruncate, fallocate by Farwrite
  kThreads = 4,       // pthread_create
  kAllocations = 8,   // operator new by Farwrite, of Plan::least bytes or more
  kFiles = 16,        // calls that change a file
  kWaits = 32,        // calls that a signal interrupts, by Farwrite
  kSends = 64,        // send, sendmsg, write, eventfd_write by Farwrite
  kLibc = 128,        // all of these, locks, clocks and copies by Farwrite
  kOwnThreads = 256,  // of kThreads those by Farwrite, and by others with the standard library
};

enum Action : std::uint32_t {
  kRefuse,  // fails the call, as the system does
  kKill,    // ends the process with SIGKILL, instead of the call
  kHalve,   // sends half of the bytes to a socket, and shuts it down
};

// One process's orders: the calls from `first` to `last`, counted from 1, meet the action.
struct Plan {
  std::atomic<pid_t> process;  // 0: none
  std::atomic<std::uint32_t> kinds;
  std::atomic<std::uint32_t> action;
  std::atomic<std::uint64_t> first;
  std::atomic<std::uint64_t> last;
  std::atomic<std::uint64_t> least;
  std::atomic<std::uint64_t> counted;
  std::atomic<std::uint64_t> struck;
  char where[32];  // the function that was struck last
};

constexpr int kPlans = 2;

struct Orders {
  Plan plans[kPlans];
  std::atomic<std::int64_t> clock_jump;  // seconds; every reading of the wall clock jumps by it
  std::atomic<std::uint64_t> told[8];    // for the tests' own use
};

}  // namespace injection
