// thread_own: an object of this thread's own, which keeps its memory from one use to the next.
#pragma once

#include <utility>

namespace farwrite::core {

// The thread's only T: give each use a type of its own. A plain thread_local with a destructor must
// not be used once the thread's destructors have run, and the main thread's run before the handlers
// and static destructors of the process's end, which may still poll and send. Here they get a new
// object, which the end of the process frees.
template <typename T>
T& thread_own() {
  static thread_local T* own = nullptr;  // without a destructor
  struct End {
    ~End() { delete std::exchange(own, nullptr); }
  };
  if (own == nullptr) {
    own = new T;
    static thread_local End end;
  }
  return *own;
}

}  // namespace farwrite::core
