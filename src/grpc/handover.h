// Tells ThreadSanitizer of what it cannot see: gRPC's library, which is not instrumented, takes a
// pointer of ours in one thread and gives it back in another, ordered. Nothing in other builds.
#pragma once

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace farwrite::grpc {

// What this thread did so far comes before what a thread does after taken_back() with this pointer.
inline void hand_over([[maybe_unused]] void* pointer) {
#if defined(__SANITIZE_THREAD__)
  __tsan_release(pointer);
#endif
}

inline void taken_back([[maybe_unused]] void* pointer) {
#if defined(__SANITIZE_THREAD__)
  __tsan_acquire(pointer);
#endif
}

}  // namespace farwrite::grpc
