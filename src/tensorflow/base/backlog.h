// Backlog: what one peer pushed and nothing has asked for yet. Every receiver has one for each
// peer.
//
// Inline tensors are the receiver's memory, and a sender may run far ahead of it. Above kHold the
// receiver tells the peer to keep its tensors (PushKind::kHold); they are then asked for by RPC. A
// peer that goes on all the same ends at kMost.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

namespace farwrite::plugin {

// Thread-safe.
class Backlog {
 public:
  static constexpr std::uint64_t kHold = std::uint64_t{64} << 20;
  static constexpr std::uint64_t kResume = kHold / 2;
  static constexpr std::uint64_t kMost = std::uint64_t{1} << 30;

  std::uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  // Whether the peer has been told to keep its tensors; set_holding() returns what it was.
  bool holding() const { return holding_.load(); }
  bool set_holding(bool holding) { return holding_.exchange(holding); }

  // Bytes of the backlog, until it goes.
  class Share {
   public:
    Share() = default;
    // Of no peer if `backlog` is null.
    Share(std::shared_ptr<Backlog> backlog, std::uint64_t bytes)
        : backlog_(std::move(backlog)), bytes_(bytes) {
      if (backlog_ != nullptr) backlog_->bytes_.fetch_add(bytes_, std::memory_order_relaxed);
    }
    Share(Share&& other) noexcept
        : backlog_(std::exchange(other.backlog_, nullptr)), bytes_(other.bytes_) {}
    Share& operator=(Share&& other) noexcept {
      std::swap(backlog_, other.backlog_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }
    ~Share() {
      if (backlog_ != nullptr) backlog_->bytes_.fetch_sub(bytes_, std::memory_order_relaxed);
    }

   private:
    std::shared_ptr<Backlog> backlog_;
    std::uint64_t bytes_ = 0;
  };

 private:
  std::atomic<std::uint64_t> bytes_{0};
  std::atomic<bool> holding_{false};
};

}  // namespace farwrite::plugin
