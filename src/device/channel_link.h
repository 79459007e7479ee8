// ChannelLink: a channel's link, and who may call it until when.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <utility>

#include "core/gate.h"
#include "fabric/fabric.h"

namespace farwrite::device {

// One turn of a wait inside the fabric; between them the channel may end.
inline constexpr std::chrono::nanoseconds kFabricTurn = std::chrono::milliseconds(50);

// The link is there from set() to drop(). Calls inside the channel's gate, threads that take a bare
// notification and pollers use get(): the channel ends all three before drop(). Every other call
// goes through a LinkUse. Thread-safe, without a mutex.
class ChannelLink {
 public:
  // One short call, for which drop() waits.
  class LinkUse {
   public:
    explicit LinkUse(const ChannelLink& link)
        : pass_(link.gate_), link_(pass_ ? link.get() : nullptr) {}
    explicit operator bool() const { return link_ != nullptr; }
    fabric::Link* operator->() const { return link_; }

   private:
    const core::Gate::Pass pass_;
    fabric::Link* const link_;
  };

  ChannelLink() = default;
  ~ChannelLink() { drop(); }
  ChannelLink(const ChannelLink&) = delete;
  ChannelLink& operator=(const ChannelLink&) = delete;

  // Once.
  void set(std::unique_ptr<fabric::Link> link) { link_.store(link.release()); }
  fabric::Link* get() const { return link_.load(std::memory_order_acquire); }

  // What the link counts, even after its end.
  fabric::LinkCounters counters() const {
    const LinkUse link(*this);
    return link ? link->counters() : last_counters_;
  }

  // Ends the link in this thread. Idempotent; one thread at a time.
  void drop() {
    if (get() == nullptr) return;
    last_counters_ = get()->counters();
    gate_.close();
    (void)gate_.wait_until_empty(core::Deadline::never());
    delete link_.exchange(nullptr);
  }
  // In a forked child, where the link is the parent's to end.
  void leak() { link_.store(nullptr); }

 private:
  mutable core::Gate gate_;
  std::atomic<fabric::Link*> link_{nullptr};
  fabric::LinkCounters last_counters_;  // fixed once the gate is closed
};

}  // namespace farwrite::device
