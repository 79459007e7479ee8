// How rows of the C ABI make their calls.
#pragma once

#include <chrono>
#include <cstdint>

#include "farwrite/c_api.h"
#include "fault/matrix_kinds.h"

namespace farwrite::fault {

inline Status status_of(fw_status* status) {
  Status copy(static_cast<StatusCode>(fw_status_code(status)), fw_status_message(status));
  fw_status_free(status);
  return copy;
}

// A handle that a call writes on success, and only then.
template <typename Handle>
class Output {
 public:
  operator Handle**() { return &handle_; }  // NOLINT(google-explicit-constructor)
  // The outcome of the call. The handle of a success ends by `end`.
  template <typename End>
  Status check(fw_status* status, End end) {
    const bool written = handle_ != before();
    if (written != (status == nullptr)) return Status(StatusCode::kInternal, "of the output");
    if (written) end(handle_);
    return status_of(status);
  }

 private:
  static Handle* before() { return reinterpret_cast<Handle*>(std::uintptr_t{64}); }
  Handle* handle_ = before();
};

inline std::uint64_t limit_ns() {
  return static_cast<std::uint64_t>(std::chrono::nanoseconds(limit()).count());
}

}  // namespace farwrite::fault
