// start_thread(): a thread that takes none of the process's signals, or the reason why there is
// none.
#pragma once

#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "core/signals_blocked.h"
#include "farwrite/status.h"

namespace farwrite::core {

// kResourceExhausted: the system refused a thread, with this errno.
inline Status no_thread(const ErrorContext& where, int error_number) {
  return Status::system_error(StatusCode::kResourceExhausted, where, "no thread could be started",
                              error_number,
                              "end other threads, or raise the limits (ulimit -u, ulimit -v)");
}

// Runs `body` in `thread`, which must not run. On an error `body` is destroyed.
template <typename Body>
Status start_thread(std::thread& thread, const ErrorContext& where, Body&& body) {
  const SignalsBlocked blocked;
  try {
    thread = std::thread(std::forward<Body>(body));
  } catch (const std::system_error& error) {
    return no_thread(where, error.code().value());
  }
  return Status();
}

}  // namespace farwrite::core
