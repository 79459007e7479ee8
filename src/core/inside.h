// Inside: marks what this thread is in: a call, a callback, or the main function of something.
#pragma once

#include <utility>

namespace farwrite::core {

// A thread that waits for something it is inside of would wait for itself; is() is asked before.
// Marks nest, and end in the reverse order. A mark is the thread's own and ends with it, so unlike
// a thread's id it is never mistaken for that of a later thread.
class Inside {
 public:
  explicit Inside(const void* what) : what_(what), outer_(std::exchange(innermost_, this)) {}
  ~Inside() { innermost_ = outer_; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

  static bool is(const void* what) {
    for (const Inside* mark = innermost_; mark != nullptr; mark = mark->outer_) {
      if (mark->what_ == what) return true;
    }
    return false;
  }

 private:
  static inline constinit thread_local const Inside* innermost_ = nullptr;

  const void* const what_;
  const Inside* const outer_;
};

}  // namespace farwrite::core
