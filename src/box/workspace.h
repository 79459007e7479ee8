// Workspace: the server's memory for changes on their way, where the fabric cannot map a client's.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "core/mutex.h"
#include "device/device.h"
#include "farwrite/bytes.h"
#include "farwrite/status.h"

namespace farwrite::box {

// Thread-safe. It outlives its pieces by their shared_ptr.
class Workspace : public std::enable_shared_from_this<Workspace> {
 public:
  // Memory that goes back with the object. Movable.
  class ScratchMemory {
   public:
    ScratchMemory(std::shared_ptr<Workspace> owner, MutableByteView bytes)
        : owner_(std::move(owner)), bytes_(bytes) {}
    ~ScratchMemory() {
      if (owner_ != nullptr) owner_->give_back(bytes_.data);
    }
    ScratchMemory(const ScratchMemory&) = delete;
    ScratchMemory& operator=(const ScratchMemory&) = delete;
    ScratchMemory(ScratchMemory&& other) noexcept
        : owner_(std::move(other.owner_)), bytes_(other.bytes_) {}
    ScratchMemory& operator=(ScratchMemory&& other) noexcept {
      std::swap(owner_, other.owner_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }

    MutableByteView bytes() const { return bytes_; }

   private:
    std::shared_ptr<Workspace> owner_;
    MutableByteView bytes_;
  };

  explicit Workspace(Device device) : device_(std::move(device)) {}

  std::optional<ScratchMemory> try_take(std::uint64_t bytes);
  // Waits for others to give back. The error after `timeout`, or at once if nothing has a piece,
  // says what is used up. kCancelled after close().
  Result<ScratchMemory> take(std::uint64_t bytes, std::chrono::nanoseconds timeout);
  // Ends the waits: those who have a piece may keep it for as long as their clients are stopped.
  void close();

 private:
  void give_back(std::byte* data);

  Device device_;
  core::Mutex mutex_{core::LockRank::kBox};
  core::CondVar given_back_;
  bool closed_ FW_GUARDED_BY(mutex_) = false;
  std::atomic<std::size_t> taken_ = 0;  // pieces
};

}  // namespace farwrite::box
