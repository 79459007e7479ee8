/// @file
/// MemoryRegistration: the user's memory, registered with a device's adapters for longer than one
/// transfer.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "farwrite/bytes.h"

namespace farwrite {

/// A registration that Device::register_memory() made. While it is held, the device's transfers
/// from or to any part of the memory need no registration per transfer.
///
/// The memory must stay mapped as long as the registration is held: an adapter registers pages, not
/// addresses. A forked child that releases its copy does not affect the parent's registration.
/// Movable, not copyable. Thread-compatible.
class MemoryRegistration {
 public:
  /// @private One handle for each fabric that requires registration.
  using Handles = std::vector<std::shared_ptr<const void>>;

  MemoryRegistration() = default;
  /// @private Made by Device::register_memory().
  MemoryRegistration(ByteView memory, Handles handles)
      : memory_(memory), handles_(std::move(handles)) {}
  ~MemoryRegistration() = default;
  MemoryRegistration(const MemoryRegistration&) = delete;
  MemoryRegistration& operator=(const MemoryRegistration&) = delete;
  /// Leaves `other` as after release().
  MemoryRegistration(MemoryRegistration&& other) noexcept
      : memory_(std::exchange(other.memory_, ByteView())), handles_(std::move(other.handles_)) {}
  /// Ends the registration that this object holds. Leaves `other` as after release().
  MemoryRegistration& operator=(MemoryRegistration&& other) noexcept {
    memory_ = std::exchange(other.memory_, ByteView());
    handles_ = std::move(other.handles_);
    return *this;
  }

  /// The registered memory; empty after release().
  ByteView memory() const { return memory_; }
  /// True if an adapter has registered the memory; false if no fabric of the device requires it.
  bool has_effect() const { return !handles_.empty(); }
  /// Ends the registration. Transfers in flight keep the registrations that they use. A second call
  /// has no effect.
  void release() { *this = MemoryRegistration(); }

 private:
  ByteView memory_;
  Handles handles_;
};

}  // namespace farwrite
