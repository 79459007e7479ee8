// Context: the primary context of a GPU, and the stack of contexts that each thread has.
#pragma once

#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "driver_api.h"

namespace farwrite::cuda_double {

struct Double;

// Under Double::lock. The driver's context goes with the last release. This one stays, because
// threads may still have it on their stacks.
struct Context {
  explicit Context(CUdevice which) : device(which) {}

  const CUdevice device;
  unsigned long long retained = 0;
  CUresult sticky = kSuccess;  // the error that every later call returns
  std::shared_ptr<Stream> legacy;
  std::map<std::thread::id, std::shared_ptr<Stream>> of_threads;
  std::vector<std::weak_ptr<Stream>> blocking;  // that the legacy stream waits for
};

// The top of this thread's stack, which may have been released. Null if the stack is empty.
Context* top_context();
// Empties this thread's stack.
void forget_stack();
// The context that a call of this thread uses, or why it cannot: none is current, it was released,
// or, unless `sticky_too`, it has an error that sticks.
CUresult current_context(Context** context, bool sticky_too = false);

}  // namespace farwrite::cuda_double
