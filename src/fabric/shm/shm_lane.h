// ShmLane: one lane of a ShmLink: a ring in each direction, and a doorbell for each.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/completion_state.h"
#include "core/counter.h"
#include "core/mutex.h"
#include "core/unique_fd.h"
#include "fabric/fabric.h"
#include "fabric/outbox.h"
#include "fabric/shm/landing_fetch.h"
#include "fabric/shm/mailbox.h"
#include "fabric/shm/ring.h"

namespace farwrite::fabric::shm {

class ShmLink;

// A region of the peer, mapped. A landing region also has the row that guards it.
class ShmWindow final : public RemoteWindow {
 public:
  ShmWindow(std::shared_ptr<memory::MappedSegment> segment, const RegionDescriptor& descriptor,
            GrantRow* row, std::uint32_t row_index);

  const std::uint64_t region_id;
  GrantRow* const row;
  const std::uint32_t row_index;
  std::byte* writable = nullptr;

  // The host memory behind it, for copies of `gpu` at full speed.
  void pin(const gpu::Gpu& gpu) { segment_->pin(gpu); }

 private:
  const std::shared_ptr<memory::MappedSegment> segment_;
};

class ShmLane final : public Lane {
 public:
  // The link and both mailboxes outlive the lane.
  ShmLane(ShmLink& link, std::uint32_t index, const MailboxView& own, const MailboxView& peer,
          core::UniqueFd own_doorbell, core::UniqueFd peer_doorbell);

  Completion post(const Operation& operation) override;
  bool write_small(RemoteWindow& window, std::uint64_t offset, ByteView source,
                   std::uint32_t tag) override {
    return write_small(static_cast<ShmWindow&>(window), offset, {}, source, tag);
  }
  bool take_bare(int looks, const std::atomic<std::size_t>& queued, std::uint32_t& tag) override;
  Progress poll(EventSink& sink) override;
  // While there is nothing, fetches what the next record is likely to bring.
  bool worth_polling() const override {
    if (!consumer_.empty()) return true;
    landed_.fetch_expected();
    return outbox_waits();
  }
  Doorbell arm() override;
  void disarm() override;
  bool rearm() override;

  // What is in the outbox ends with `reason`. After the link was poisoned nothing follows it.
  void end(const Status& reason);
  // Wakes the threads that sleep on this side.
  void ring_own();
  LinkCounters counters() const FW_NO_THREAD_SAFETY_ANALYSIS {
    return {copies_.value(), outbox_.backlogged(), doorbells_.value()};
  }

 private:
  // A record that found the ring full.
  struct Unsent {
    RecordKind kind;
    std::uint32_t tag;
    std::vector<std::byte> payload;
    std::shared_ptr<core::CompletionState> completion;
  };

  Completion write(const Operation& operation);
  // A write that notifies. False where it is not small, or stands in a queue, or cannot be.
  bool write_small(ShmWindow& window, std::uint64_t offset, ByteView head, ByteView source,
                   std::uint32_t tag);
  // The same where the window or the source lies on a GPU.
  Completion write_on_gpu(const Operation& operation);
  // Copies the source of a write, some pages, to `target`, which is behind its head.
  void copy_large(std::byte* target, const ShmWindow& window, const Operation& operation)
      FW_NO_THREAD_SAFETY_ANALYSIS;  // receiver_sleeps() needs no lock
  // The same of a notified write, and lets a receiver that polls fetch it meanwhile.
  void copy_announced(std::byte* target, const ShmWindow& window, const Operation& operation)
      FW_NO_THREAD_SAFETY_ANALYSIS;  // report() needs no lock
  Completion read(const Operation& operation);
  Completion push(RecordKind kind, const Operation& operation);
  // Moves what it can from the outbox into the ring; true if something is left.
  bool drain_outbox();
  // With polling_ held: asks the peer to ring, unless something is there already.
  bool may_sleep();
  void ring_if_asleep() FW_REQUIRES(sending_);
  // Needs no lock. Much earlier, a receiver that polls would take the line back.
  void fetch_next_cell() const FW_NO_THREAD_SAFETY_ANALYSIS { producer_.prefetch(); }
  bool outbox_waits() const FW_NO_THREAD_SAFETY_ANALYSIS { return outbox_.waits(); }
  // Fetches what the peer copies, as it copies it, until another record comes.
  void follow(const RingRecord& announcement);
  Status corrupt_ring() const;
  Status closed_by_owner() const;

  ShmLink& link_;
  const std::uint32_t index_;

  core::Mutex sending_{core::LockRank::kShm, 1};
  RingProducer producer_ FW_GUARDED_BY(sending_);
  Outbox<Unsent> outbox_ FW_GUARDED_BY(sending_);

  std::atomic_flag polling_ = ATOMIC_FLAG_INIT;
  RingConsumer consumer_;
  LandingFetch landed_;
  std::atomic<bool> corrupt_{false};  // nothing more is read from the ring

  const core::UniqueFd own_doorbell_;
  const core::UniqueFd peer_doorbell_;
  core::Counter copies_, doorbells_;
};

}  // namespace farwrite::fabric::shm
