// MemoryRegistration of the library: what it does is written in farwrite/registration.h.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "farwrite/bytes.h"

namespace farwrite {

class MemoryRegistration {
 public:
  using Handles = std::vector<std::shared_ptr<const void>>;

  MemoryRegistration() = default;
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

  ByteView memory() const { return memory_; }
  bool has_effect() const { return !handles_.empty(); }
  void release() { *this = MemoryRegistration(); }

 private:
  ByteView memory_;
  Handles handles_;
};

}  // namespace farwrite
