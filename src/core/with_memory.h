// with_memory(): runs what allocates much, or by a peer's number, and returns a refusal as an
// error. In a thread of ours std::bad_alloc would end the process.
#pragma once

#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "farwrite/status.h"

namespace farwrite::core {

// kResourceExhausted: the system refused memory for `purpose`, such as "a message".
inline Status no_memory(const ErrorContext& where, std::string_view purpose) {
  return Status::error(StatusCode::kResourceExhausted, where,
                       "this process was refused memory for " + std::string(purpose),
                       "free memory, or raise the limits (ulimit -v)");
}

template <typename Body>
Status with_memory(const ErrorContext& where, std::string_view purpose, Body&& body) {
  try {
    std::forward<Body>(body)();
  } catch (const std::bad_alloc&) {
    return no_memory(where, purpose);
  }
  return Status();
}

}  // namespace farwrite::core
