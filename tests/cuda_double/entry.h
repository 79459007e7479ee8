// How every function of the driver begins: it counts the call, may have a fault, and refuses a
// process that has not called cuInit() or is the child of one that has.
#pragma once

#include <mutex>

#include "context.h"
#include "double.h"
#include "driver_api.h"

namespace farwrite::cuda_double {

using Lock = std::unique_lock<std::mutex>;

// Whether the process that called cuInit() forked this one. Its locks may be held by threads that
// do not exist here, so that nothing else may be looked at.
bool is_forked_child();
// This process is the one that may use the GPUs; its children may not.
void own_gpus();
void disown_gpus();

// Counts the call. An error that it shall answer, having stuck it to the current context if it
// does.
inline CUresult count_call(Double& all, const char* function) {
  const CUresult injected = all.faults.count(function);
  Context* context = top_context();
  if (sticks(injected) && context != nullptr) context->sticky = injected;
  return injected;
}

// Runs body(all, lock), with the lock held, whether cuInit() was called or not.
template <class Body>
CUresult enter_early(const char* function, Body body) {
  if (is_forked_child()) return kNotInitialized;
  Double& all = the_double();
  Lock lock(all.lock);
  const CUresult injected = count_call(all, function);
  return injected == kSuccess ? body(all, lock) : injected;
}

template <class Body>
CUresult enter(const char* function, Body body) {
  return enter_early(function, [&](Double& all, Lock& lock) {
    return all.initialized ? body(all, lock) : kNotInitialized;
  });
}

// Runs body(all, current context, lock) if that context is usable.
template <class Body>
CUresult enter_context(const char* function, Body body) {
  return enter(function, [&](Double& all, Lock& lock) {
    Context* current = nullptr;
    const CUresult usable = current_context(&current);
    return usable == kSuccess ? body(all, *current, lock) : usable;
  });
}

// For what gives something back: an error that sticks is answered, but the thing is gone, so that
// tests can distinguish a caller that cleans up from one that does not.
template <class Body>
CUresult enter_release(const char* function, Body body) {
  return enter(function, [&](Double& all, Lock& lock) {
    Context* current = nullptr;
    const CUresult usable = current_context(&current, true);
    if (usable != kSuccess) return usable;
    const CUresult answer = body(all, *current, lock);
    return answer == kSuccess ? current->sticky : answer;
  });
}

}  // namespace farwrite::cuda_double
