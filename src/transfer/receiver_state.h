// ReceiverState: everything behind a TensorReceiver.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/counter.h"
#include "core/fork_guard.h"
#include "farwrite/tensor.h"
#include "memory/held_back.h"
#include "transfer/dynamic_slot.h"
#include "transfer/port.h"
#include "transfer/sequence.h"
#include "transfer/static_slot.h"

namespace farwrite::transfer {

// Thread-safe. Held by the user's handles and, for the length of a call, by the port.
class ReceiverState : public std::enable_shared_from_this<ReceiverState> {
 public:
  static Result<std::shared_ptr<ReceiverState>> open(const Channel& channel, std::string_view name,
                                                     const ReceiverOptions& options);
  ~ReceiverState();

  Result<ReceivedTensor> receive(std::chrono::nanoseconds timeout);
  Status wait(std::chrono::nanoseconds timeout);
  Result<std::optional<ReceivedTensor>> try_receive();
  Status reset();
  TensorStats stats() const;
  Status close(std::chrono::nanoseconds timeout);

  // From the port, under its mutex.
  void land(std::uint32_t index);
  void take_offer(OfferRecord offer, const RemoteRegion& lent, std::uint64_t epoch);
  void sender_has_closed(std::uint64_t last_sequence);

 private:
  struct Place {
    MemoryRegion region;
    std::uint32_t number = 0;
    StaticSlot slot;
    std::uint64_t last_flag = 0;  // the tail flag that was seen last
  };
  // What has arrived and nobody has received.
  struct Item {
    std::uint32_t index = 0;  // of its slot, if it was pushed
    SlotHead head;
    std::shared_ptr<DynamicSlot> offer;  // else
  };

  ReceiverState(const Channel& channel, std::string_view name, const ReceiverOptions& options);
  Status check() const;
  // Until something has arrived, or nothing will: then `take` is called, under the port's mutex.
  Status wait_for(core::Deadline deadline, const std::function<void()>& take);
  Status allocate_slots();
  Status announce();
  Result<ReceivedTensor> resolve(Item item, core::Deadline deadline);
  ReceivedTensor hand_out(const Item& item);
  // The last view of a slot that was handed out at a ForkedReaders::stamp().
  void view_gone(std::uint32_t index, std::uint64_t handed_out);
  void read_ahead();

  // Under the port's mutex.
  bool sender_has_ended() const;
  void drop_stale(std::uint64_t sequence);
  void return_slot(std::uint32_t index);
  void return_held_slots();
  void grant_again(std::uint32_t index);
  void say_grants();
  void look_at_flags();
  std::uint64_t* flag_of(const Place& place) const;

  Channel channel_;
  const std::shared_ptr<Port> port_;
  const std::string name_;
  const ReceiverOptions options_;
  const core::ForkGuard fork_guard_;
  std::uint64_t registrations_before_ = 0;
  SlotTerms terms_;

  // Under the port's mutex.
  bool announced_ = false;
  bool closed_ = false;
  bool sender_closed_ = false;
  std::uint64_t closing_sequence_ = 0;  // of the sender's last tensor, once it has closed
  std::uint32_t round_ = 0;
  Status broken_;  // why nothing in order can follow
  SlotCounts counts_;
  std::deque<Place> places_;                    // never moves its elements
  memory::HeldBack<std::uint32_t> held_slots_;  // VIEWED by forked children only
  std::vector<std::uint32_t> numbers_;
  Sequence<Item> arrived_;
  std::vector<SlotCredits::Credit> unsaid_grants_;
  std::vector<SlotCredits::Credit> unsaid_reset_;  // renewed by the last reset()
  bool reset_unsaid_ = false;                      // goes before any grant
  std::uint64_t dropped_offers_ = 0, dropped_unseen_ = 0, offered_ = 0;
  std::uint64_t allocations_ = 0;

  core::Counter aliased_, read_, read_allocations_;
};

}  // namespace farwrite::transfer
