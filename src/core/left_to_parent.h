// left_to_parent(): handles of what a forked child must not destroy.
#pragma once

#include <memory>
#include <utility>

#include "core/fork_guard.h"

namespace farwrite::core {

// Keeps `thing` for ever, where leak checkers find it. For forked children.
void keep_for_ever(std::shared_ptr<void> thing);

// A handle of `state` whose end does nothing in a forked child. There the state's threads are gone,
// its locks may be held for ever, and to destroy a condition would wait for the threads that wait
// for it.
template <typename State>
std::shared_ptr<State> left_to_parent(std::shared_ptr<State> state) {
  State* const raw = state.get();
  return {raw, [guard = ForkGuard(), state = std::move(state)](State*) mutable {
            if (guard.in_forked_child()) keep_for_ever(std::move(state));
          }};
}

}  // namespace farwrite::core
