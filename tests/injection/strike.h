// strike(): asks whether this call is the one that meets its fault.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "plan.h"

namespace injection {

Orders* orders();

// Whether the address is in one of Farwrite's libraries.
bool is_ours(const void* address);

// Counts a call of these kinds. True if it is to fail, or to send half; a process that is to be
// killed ends here.
bool strike(std::uint32_t kinds, const char* name, Action action = kRefuse);

// As strike(), for a call that counts only if Farwrite made it.
inline bool strike_ours(const void* caller, std::uint32_t kinds, const char* name,
                        Action action = kRefuse) {
  Orders* const all = orders();
  if (all == nullptr || (all->plans[0].process == 0 && all->plans[1].process == 0)) return false;
  return is_ours(caller) && strike(kinds | kLibc, name, action);
}

// What a failing function returns.
template <typename Value = int>
Value fail(int error, Value value = static_cast<Value>(-1)) {
  errno = error;
  return value;
}

}  // namespace injection

// The function that stands behind ours.
#define BEHIND(name) \
  static const auto behind = reinterpret_cast<decltype(&::name)>(::dlsym(RTLD_NEXT, #name))
#define CALLER __builtin_return_address(0)
