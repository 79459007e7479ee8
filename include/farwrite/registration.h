// MemoryRegistration: the user's own memory, registered with a device's adapters for longer than
// one transfer.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "farwrite/bytes.h"

namespace farwrite {

// Made by Device::register_memory(). While it is held, transfers of that device from or to any part
// of the memory find it registered. The memory must stay mapped for as long: an adapter knows
// pages, not addresses. A forked child that lets go of it leaves its parent's alone.
//
// Moves, and does not copy. Thread-compatible.
class MemoryRegistration {
 public:
  using Handles = std::vector<std::shared_ptr<const void>>;

  MemoryRegistration() = default;
  // Internal: one handle for each fabric that has use for it.
  MemoryRegistration(ByteView memory, Handles handles)
      : memory_(memory), handles_(std::move(handles)) {}
  ~MemoryRegistration() = default;
  MemoryRegistration(const MemoryRegistration&) = delete;
  MemoryRegistration& operator=(const MemoryRegistration&) = delete;
  MemoryRegistration(MemoryRegistration&& other) noexcept
      : memory_(std::exchange(other.memory_, ByteView())), handles_(std::move(other.handles_)) {}
  MemoryRegistration& operator=(MemoryRegistration&& other) noexcept {
    memory_ = std::exchange(other.memory_, ByteView());
    handles_ = std::move(other.handles_);
    return *this;
  }

  // Empty once released.
  ByteView memory() const { return memory_; }
  // Whether an adapter has registered it; false where no fabric of the device has use for that.
  bool has_effect() const { return !handles_.empty(); }
  // Lets go now. Transfers under way keep what they need. Again: nothing.
  void release() { *this = MemoryRegistration(); }

 private:
  ByteView memory_;
  Handles handles_;
};

}  // namespace farwrite
