#include "box/workspace.h"

#include <string>

#include "box/memory_used_up.h"
#include "core/mutex.h"

namespace farwrite::box {

std::optional<Workspace::ScratchMemory> Workspace::try_take(std::uint64_t bytes) {
  std::byte* const data = device_.allocate_raw(bytes);
  if (data == nullptr) return std::nullopt;
  ++taken_;
  return std::optional<ScratchMemory>(std::in_place, shared_from_this(),
                                      MutableByteView(data, bytes));
}

Result<Workspace::ScratchMemory> Workspace::take(std::uint64_t bytes,
                                                 std::chrono::nanoseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  core::Lock lock(mutex_);
  while (true) {
    if (std::optional<ScratchMemory> piece = try_take(bytes)) return *std::move(piece);
    if (closed_) {
      return Status::error(StatusCode::kCancelled, {.operation = "change a segment"},
                           "the server closes", "connect to another box");
    }
    const bool late =
        taken_ > 0 && given_back_.wait_until(mutex_, deadline) == std::cv_status::timeout;
    if (taken_ > 0 && !late) continue;
    const Result<MemoryRegion> refused = device_.allocate(bytes);
    if (refused.ok()) continue;
    return no_memory_for(device_, refused.status(), "change a segment",
                         "the " + std::to_string(bytes) + " bytes of the change", bytes,
                         "send smaller changes");
  }
}

void Workspace::close() {
  const core::Lock lock(mutex_);
  closed_ = true;
  given_back_.notify_all();
}

void Workspace::give_back(std::byte* data) {
  device_.free_raw(data);
  const core::Lock lock(mutex_);
  --taken_;
  given_back_.notify_all();
}

}  // namespace farwrite::box
