// LandingZone: the receiver's half of landing: the slots that one peer may write, each the memory
// of one tensor to come (paper "RPC Considered Harmful", section 3.2, static placement).
//
// A slot is GRANTED to the peer, for one edge; a push fills it, and it is HELD by the tensor that
// it became; when the last reference to that is gone, it is granted anew. Tensors may outlive the
// step, the channel and the peer. A push that finds no slot is offered and read instead, never
// held up: so a step that keeps every tensor it gets goes on.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "farwrite/c_api.h"
#include "rendezvous/arrival_table.h"

namespace farwrite::plugin {

class PeerProcess;

// Thread-safe.
class LandingZone : public std::enable_shared_from_this<LandingZone> {
 public:
  // A tensor of so many bytes was offered on this edge for want of a slot, and more will come.
  // Opens slots soon, on another thread.
  void wanted(const std::shared_ptr<PeerProcess>& process, std::string_view edge,
              std::uint64_t bytes);
  // The peer has written into the slot. Null, or what is wrong with that.
  const char* landed(std::uint32_t slot, StepId* step, std::string* key, Arrival* arrival);
  // The peer will not write into these slots any more.
  void given_up(const std::vector<std::uint32_t>& slots);
  // The channel has ended: nobody writes any more. What is held stays until its tensors go.
  void close();

 private:
  struct Slot;
  class Buffer;
  using SlotRef = std::shared_ptr<Slot>;
  struct EdgeSlots {
    std::vector<SlotRef> slots;
    std::uint64_t last_used = 0;  // us
  };

  void open_slots(const std::shared_ptr<PeerProcess>& process, const std::string& edge,
                  std::uint64_t bytes, int count);
  void withdraw_idle(PeerProcess& process);
  std::vector<std::uint32_t> retire(EdgeSlots& edge, std::uint64_t below);
  void forget(const SlotRef& slot);
  static void let_go(std::vector<SlotRef> slots);
  void give_back(SlotRef slot);

  std::mutex mutex_;
  bool closed_ = false;
  std::uint32_t last_slot_ = 0;
  std::weak_ptr<PeerProcess> process_;
  std::unordered_map<std::uint32_t, SlotRef> slots_;
  std::unordered_map<std::string, EdgeSlots> edges_;
  std::unordered_set<std::string> opening_;  // edges whose slots are being opened
  std::uint64_t not_before_ = 0;             // us; memory was short
};

// Slots of this process, for stats.
struct LandingTotals {
  std::atomic<std::int64_t> slots{0};
  std::atomic<std::int64_t> held{0};
  std::atomic<std::int64_t> bytes{0};
};
LandingTotals& landing_totals();

}  // namespace farwrite::plugin
