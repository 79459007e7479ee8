/// @file
/// MemoryRegistration: the user's memory, registered with a device's adapters for longer than one
/// transfer.
#pragma once

#include <memory>
#include <utility>

#include "farwrite/bytes.h"
#include "farwrite/c_memory.h"
#include "farwrite/internal/namespace.h"

FARWRITE_BEGIN

/// A registration that Device::register_memory() made. While it is held, the device's transfers
/// from or to any part of the memory need no registration per transfer.
///
/// The memory must stay mapped as long as the registration is held: an adapter registers pages, not
/// addresses. A forked child that releases its copy does not affect the parent's registration.
/// Movable, not copyable. Thread-compatible.
class MemoryRegistration {
 public:
  MemoryRegistration() = default;
  /// @private Made by Device::register_memory(), takes the handle over.
  MemoryRegistration(ByteView memory, fw_registration* handle) : memory_(memory), handle_(handle) {}
  ~MemoryRegistration() = default;
  MemoryRegistration(const MemoryRegistration&) = delete;
  MemoryRegistration& operator=(const MemoryRegistration&) = delete;
  /// Leaves `other` as after release().
  MemoryRegistration(MemoryRegistration&& other) noexcept
      : memory_(std::exchange(other.memory_, ByteView())), handle_(std::move(other.handle_)) {}
  /// Ends the registration that this object holds. Leaves `other` as after release().
  MemoryRegistration& operator=(MemoryRegistration&& other) noexcept {
    memory_ = std::exchange(other.memory_, ByteView());
    handle_ = std::move(other.handle_);
    return *this;
  }

  /// The registered memory; empty after release().
  ByteView memory() const { return memory_; }
  /// True if an adapter has registered the memory; false if no fabric of the device requires it.
  bool has_effect() const { return fw_registration_has_effect(handle_.get()) != 0; }
  /// Ends the registration. Transfers in flight keep the registrations that they use. A second call
  /// has no effect.
  void release() { *this = MemoryRegistration(); }

 private:
  struct Release {
    void operator()(fw_registration* handle) const { fw_registration_release(handle); }
  };

  ByteView memory_;
  std::unique_ptr<fw_registration, Release> handle_;
};

FARWRITE_END
