// Engine: the tensor protocol of one channel: slots, credits, grants, aborts, withdrawals, leases.
//
// Both sides have one. Its users give edges keys: TensorSender and TensorReceiver number theirs
// (port.h), the plug-in for TensorFlow uses rendezvous keys (c_api/tensors.cc). Tensors that land
// are delivered by callback. What the user has to say of a tensor travels as an opaque description
// in the head of its slot, or in a message beside a lease.
//
// One mutex guards all state. Records are sent under it (sending never blocks), so that their order
// is that of the changes. It is never held while payload moves, while the user is called, or while
// memory is allocated, opened or given back, which may wait for the peer.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/counter.h"
#include "core/deadline.h"
#include "core/fork_guard.h"
#include "core/mutex.h"
#include "device/channel.h"
#include "memory/held_back.h"
#include "transfer/credit_table.h"
#include "transfer/landed_tensor.h"
#include "transfer/landing_table.h"
#include "transfer/record_queue.h"

namespace farwrite::transfer {

// Where an engine delivers. Never called under a lock of the engine's; for one lane by one thread
// at a time. An error of kProtocolError ends the channel.
class EngineUser {
 public:
  virtual ~EngineUser() = default;
  virtual Status on_tensor(LandedTensor tensor) = 0;
  // A push made before an abort. Its slot is granted again.
  virtual void on_stale(const std::string& /*edge*/, ByteView /*description*/) {}
  // A push that no honest peer makes.
  virtual Status on_misfit(const std::string& edge, PushVerdict verdict) = 0;
  // A push into a slot that is gone, of an edge that this side closed or of none.
  virtual Status on_unknown_slot(std::uint32_t slot) = 0;
  // Any other message, with what was lent along.
  virtual Status on_message(Notification notification) = 0;
  // The peer has announced so many slots of an edge: call open_slots() on a thread that may wait.
  virtual Status on_slots(const std::string& edge, std::size_t count) = 0;
  virtual Status on_reset(const std::string& /*edge*/, std::uint32_t /*round*/) { return {}; }
  // A slot was opened on demand, or could not be opened, on either side.
  virtual void on_slot(bool /*opened*/) {}
  // Runs `work` after `delay`. Work without a delay may wait for the peer; other work does not. An
  // engine whose user has no threads opens no slots on demand, and its grants do not wait.
  virtual void run_later(std::chrono::nanoseconds delay, std::function<void()> work);
};

// Thread-safe. Holds its channel weakly, and nothing that holds it once its users have closed their
// edges, or close() was called: a channel may own its engine.
class Engine : public std::enable_shared_from_this<Engine> {
 public:
  // `grant_delay`: how long grants may wait for a message to travel with; then run_later() of the
  // user sends them. `totals` outlives every slot.
  Engine(const Channel& channel, std::weak_ptr<EngineUser> user,
         std::chrono::nanoseconds grant_delay, LandingTotals& totals);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Takes the channel's next notification of a lane.
  Status take(Notification notification);
  // The channel has ended: nothing lands any more. What is held stays until its tensors go.
  void close();
  // Ends the channel on both sides, because the peer broke the protocol.
  void refuse_peer(const Status& reason);

  // --- Messages and offers, behind the records that wait in the lane.
  Completion send(ByteView message, std::uint32_t tag, std::uint32_t lane);
  Completion lend(ByteView message, ByteView memory, std::function<void()> returned,
                  std::uint32_t tag, std::uint32_t lane);
  // Sends a record of a named edge as soon as the lane takes it, behind those that wait there.
  void send_record(RecordType type, std::vector<std::byte> record, std::uint32_t lane) {
    std::optional<Channel> channel = this->channel();
    const core::Lock lock(mutex_);
    records_.add(lane, type, std::move(record));
    flush(channel);
  }
  // Sends what waits in the lanes. Cheap if nothing does.
  void flush();

  // --- The sender's half. `lane`: of the edge's records.

  // Opens the announced slots of an edge. May wait for the peer. Returns the first error; such a
  // slot is given up. `requests` counts the others, and may be null.
  Status open_slots(const std::string& edge, core::Deadline deadline, std::uint32_t lane,
                    core::Counter* requests);
  std::optional<CreditTable::Taken> take_credit(std::string_view edge, std::uint64_t bytes) {
    const core::Lock lock(mutex_);
    return credits_.take(edge, bytes);
  }
  bool has_credit(std::string_view edge, std::uint64_t bytes) const {
    const core::Lock lock(mutex_);
    return credits_.has(edge, bytes);
  }
  void put_back(const CreditTable::Taken& taken, std::uint32_t lane);
  // Writes head and payload into the slot in one operation. On an error nothing was written; put
  // the credit back then.
  Completion push(const CreditTable::Taken& taken, std::vector<std::byte> description,
                  ByteView payload, std::uint32_t lane);
  // This side pushes no more on the edge; the memory of the peer is given back.
  void stop_pushing(std::string_view edge);
  // The receiver has closed the edge. Returns the credits that it had.
  CreditTable::Counts forget_edge(std::string_view edge);
  CreditTable::Counts credits(std::string_view edge) const {
    const core::Lock lock(mutex_);
    return credits_.counts(edge);
  }

  // --- The receiver's half.

  using SlotRef = LandingTable::SlotRef;

  // Gives an edge slots, grants and announces them. `lane`: of the edge's records. Each region has
  // room for a head and `capacity` bytes, and what it held before is no head.
  Result<std::vector<SlotRef>> add_slots(const std::string& edge, std::uint32_t lane,
                                         const std::vector<MemoryRegion>& regions,
                                         std::uint64_t capacity);
  // A tensor of so many bytes was offered for want of a slot, and more will come: opens slots soon,
  // on a thread of the user's.
  void want(std::string_view edge, std::uint64_t bytes, std::uint32_t lane);
  // Abort: what was pushed before the sender receives it is stale.
  void abort(const std::string& edge, std::uint32_t lane, std::uint32_t round);
  // The sender has closed: the edge's slots stay free when their tensors go.
  void stop_granting(const std::string& edge) {
    const core::Lock lock(mutex_);
    for (const SlotRef& slot : landing_.slots_of(edge)) slot->stopped = true;
  }
  // Forgets the edge's slots; nothing is granted any more.
  void close_edge(const std::string& edge);
  // A push that has arrived: what it is, and what it brought.
  struct ArrivedPush {
    PushVerdict verdict = PushVerdict::kUnasked;
    bool known = false;                  // there is such a slot
    std::string edge;                    // of a slot that is there
    LandedTensor tensor;                 // if it landed
    std::vector<std::byte> description;  // of a stale push
  };
  // A stale or malformed push has its slot granted again.
  ArrivedPush land(std::uint32_t slot);
  // Grants the slots that forked children have kept from it, and keep no more. Cheap if there are
  // none.
  void grant_unread();
  struct SlotStats {
    SlotCounts counts;
    std::array<std::uint64_t, 4> in_state{};  // by SlotState
  };
  // Of one edge's slots, which add_slots() returned.
  SlotStats stats(const std::vector<SlotRef>& slots) const;
  bool is_granted(const LandingSlot& slot) const {
    const core::Lock lock(mutex_);
    return slot.slot.state() == SlotState::kGranted;
  }

 private:
  friend class LandedTensor;

  void view(LandingSlot& slot);
  void refuse(SlotRef slot) { free(std::move(slot), &Slot::refuse); }
  void give_back(SlotRef slot) { free(std::move(slot), &Slot::give_back); }

  void free(SlotRef slot, void (Slot::*how)());

  // Null once the channel is gone. Taken before the lock and dropped after it: it may be the last
  // reference by then.
  std::optional<Channel> channel() const;
  static Status no_channel();
  Status take_slots(EngineUser& user, ByteView message);
  Status take_grants(ByteView message);
  Status take_reset(EngineUser& user, ByteView message);
  Status take_withdraw(ByteView message, std::uint32_t lane);
  Status take_given_up(ByteView message);
  void open_on_demand(const std::string& edge, std::uint64_t bytes, int count, std::uint32_t lane);
  void flush_before(Channel& channel);
  void flush_later();
  void count_slot(bool opened);
  // Frees memory on a thread that may wait for the peer.
  void let_go(std::vector<SlotRef> slots);

  // Those that return true ask for flush_later() behind the lock.
  bool grant(LandingSlot& slot, std::optional<Channel>& channel) FW_REQUIRES(mutex_);
  bool grant_held_back(std::optional<Channel>& channel) FW_REQUIRES(mutex_);
  void flush(Channel& channel) FW_REQUIRES(mutex_);
  void flush(std::optional<Channel>& channel) FW_REQUIRES(mutex_);
  bool records_wait() const FW_NO_THREAD_SAFETY_ANALYSIS { return records_.waits(); }

  const std::weak_ptr<device::ChannelState> channel_;
  const std::weak_ptr<EngineUser> user_;
  const std::chrono::nanoseconds grant_delay_;
  LandingTotals& totals_;
  const std::uint64_t max_message_bytes_;
  const core::ForkGuard fork_guard_;

  mutable core::Mutex mutex_{core::LockRank::kTransfer};
  bool closed_ FW_GUARDED_BY(mutex_) = false;
  bool flush_is_due_ FW_GUARDED_BY(mutex_) = false;  // run_later() will flush
  LandingTable landing_ FW_GUARDED_BY(mutex_);
  CreditTable credits_ FW_GUARDED_BY(mutex_);
  RecordQueue records_ FW_GUARDED_BY(mutex_);
  memory::HeldBack<SlotRef> held_back_;
};

}  // namespace farwrite::transfer
