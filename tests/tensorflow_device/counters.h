// What the devices of this process did. Tests read it by fartest_counters().
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace fartest {

// Copies that were begun, of tensors that have bytes. A failed one counts.
#define FARTEST_COUNTERS(X)                                                          \
  X(copies_to_host)                                                                  \
  X(bytes_to_host)                                                                   \
  X(copies_to_device)                                                                \
  X(bytes_to_device)                                                                 \
  X(copies_inside)                                                                   \
  X(failed_copies)                                                                   \
  X(kernels)             /* computations on a device */                              \
  X(refused_allocations) /* no memory was left, or the limit was reached */          \
  X(freed_under_copy)    /* memory that was freed before a copy into it had ended */ \
  X(stray_copies)        /* from or to an address that is not in the device's memory */

// Values of now.
#define FARTEST_GAUGES(X) \
  X(copies_under_way)     \
  X(held_copies)          \
  X(bytes_in_use)

struct Counters {
#define FARTEST_FIELD(name) std::atomic<std::uint64_t> name{0};
  FARTEST_COUNTERS(FARTEST_FIELD)
  FARTEST_GAUGES(FARTEST_FIELD)
#undef FARTEST_FIELD
};

// Of all devices of this process.
Counters& counters();

std::string counters_json();

}  // namespace fartest
