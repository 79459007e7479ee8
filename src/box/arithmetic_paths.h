// The implementations of the arithmetic, one for each set of CPU features: arithmetic.cc takes the
// first that the CPU supports, and the tests run them all.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "box/box.h"

// For the functions that touch the memory of segments. Readers read that memory one-sided while a
// change is made, and discard what they read when the sequence lock tells them to. ThreadSanitizer
// cannot know that, and would report each such read as a race.
#define FARWRITE_BOX_UNCHECKED_RACE __attribute__((no_sanitize("thread")))

namespace farwrite::box {

// How an operation walks memory, by its element type. Four places at once, where a line takes
// little arithmetic: memory is then what limits it.
struct FourStreams {
  static constexpr std::size_t kStreams = 4;
  static constexpr std::size_t kAhead = 4 * 64;
};
// One place, where a line takes so much arithmetic that few lines fit into the CPU's reordering.
struct OneStream {
  static constexpr std::size_t kStreams = 1;
  static constexpr std::size_t kAhead = 24 * 64;
};

// The functions keep the promises of arithmetic.h.
struct ArithmeticPath {
  std::string_view name;   // "generic", "avx2"
  bool supported = false;  // this CPU can run it
  void (*accumulate)(ElementType, void*, const void*, Factor, std::size_t) = nullptr;
  void (*axpy)(ElementType, void*, const void*, const void*, Factor, std::size_t) = nullptr;
  void (*scale)(ElementType, void*, Factor, std::size_t) = nullptr;
  void (*fill)(ElementType, void*, Factor, std::size_t) = nullptr;
  void (*swap_bytes)(void*, void*, std::size_t) = nullptr;
};

// Every path of this build, in order of preference.
std::vector<ArithmeticPath> arithmetic_paths();

// Each appends its path; none on an architecture it is not for.
void append_avx2_path(std::vector<ArithmeticPath>& paths);
void append_generic_path(std::vector<ArithmeticPath>& paths);

}  // namespace farwrite::box
