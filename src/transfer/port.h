// Port: the one taker of a channel's notifications, for all its senders and receivers of tensors.
//
// Leader and follower: a thread that finds its queue empty takes the channel's notifications, also
// those of others, until its own is there; then the next waiting thread does. So nobody is woken up
// twice, and no thread is ours.
//
// One mutex guards everything that records change: edges, slots, credits. Records are sent under it
// (sending never blocks), so that their order is that of the changes. Never held while payload
// moves, or while anything is destroyed that may call the channel.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/deadline.h"
#include "fabric/notified_writes.h"
#include "farwrite/channel.h"
#include "farwrite/tensor.h"
#include "transfer/records.h"
#include "transfer/static_slot.h"

namespace farwrite::transfer {

class ReceiverState;

// An edge that the peer receives, as it announced it. Under the port's mutex.
struct PeerEdge {
  EdgeRecord record;
  std::vector<SlotsRecord::Entry> slots;
  SlotCredits credits;
  std::uint32_t round = 0;
  bool closed = false;   // by the receiver
  bool claimed = false;  // a sender has it

  bool complete() const { return slots.size() == record.slots; }
};

// Belongs to the channel and holds nothing of it: callers bring their handle. Thread-safe.
class Port {
 public:
  static std::shared_ptr<Port> of(const Channel& channel);
  // How notified writes are made there.
  static fabric::LoweringChoice lowering_of(const Channel& channel);
  // Whether `forced` can be had there, and is what the channel does.
  static Status check_lowering(const Channel& channel, NotificationLowering forced);
  // Segments that the channel's device has registered so far.
  static std::uint64_t registrations_of(const Channel& channel);

  std::mutex& mutex() { return mutex_; }

  // Takes what comes, for everybody, until `arrived`, which is called under the mutex, is true.
  // kDeadlineExceeded, or why nothing will come any more. `polled`: `arrived` has to look at memory
  // that nobody announces.
  Status wait(Channel& channel, const std::function<bool()>& arrived, core::Deadline deadline,
              bool polled = false);
  // Takes what is there, unless somebody takes already.
  void drain(Channel& channel);

  // The rest under the mutex.

  // Why nothing will come any more, or ok.
  const Status& ended() const { return ended_; }
  void wake_all() { changed_.notify_all(); }

  // Gives a receiver its number, and each of its slots one: first_slot, first_slot + 1, ...
  // kAlreadyExists if the name is taken.
  Status add_receiver(const std::string& name, const std::shared_ptr<ReceiverState>& receiver,
                      std::uint32_t slots, std::uint32_t& edge,
                      std::vector<std::uint32_t>& numbers);
  void remove_receiver(const std::string& name, std::uint32_t edge,
                       const std::vector<std::uint32_t>& numbers);
  // The peer's latest edge of that name, once it is announced wholly and while it is open.
  std::shared_ptr<PeerEdge> find_edge(const std::string& name) const;

 private:
  struct SlotPlace {
    std::weak_ptr<ReceiverState> receiver;
    std::uint32_t index = 0;
  };

  Status dispatch(Channel& channel, const Notification& notification);
  Status take(Channel& channel, const Notification& notification);
  Status land(std::uint32_t number);
  Status take_edge(const Channel& channel, ByteView message);
  Status take_slots(ByteView message);
  Status take_credits(ByteView message, bool reset);
  Status take_offer(Channel& channel, const Notification& notification);
  Status take_closed(ByteView message);

  std::mutex mutex_;
  std::condition_variable changed_;
  bool led_ = false;
  Status ended_;
  std::uint32_t last_edge_ = 0;
  std::uint32_t next_slot_ = 0;
  std::map<std::uint32_t, std::weak_ptr<ReceiverState>> receivers_;  // by edge
  std::map<std::string, std::uint32_t> names_;                       // of the open ones
  std::unordered_map<std::uint32_t, SlotPlace> slots_;               // by number
  std::map<std::uint32_t, std::shared_ptr<PeerEdge>> peer_edges_;    // until the receiver closes
};

// Says a record. It waits behind earlier ones of its lane, never for the peer.
Completion say(Channel& channel, RecordType type, const std::vector<std::byte>& record,
               std::uint32_t lane);

}  // namespace farwrite::transfer
