// ShmLink: the shm fabric's half of a channel.
//
// A write is one copy by the calling thread straight into the peer's landing memory, a read one
// copy out of the peer's export memory; both are over when post() returns. A notification is a
// record in the peer's ring, released after the copy.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/completion_state.h"
#include "core/counter.h"
#include "core/event_loop.h"
#include "core/unique_fd.h"
#include "fabric/fabric.h"
#include "fabric/shm/attach.h"
#include "fabric/shm/grant_table.h"
#include "fabric/shm/ring.h"
#include "fabric/shm/segment_exchange.h"
#include "memory/warm_targets.h"

namespace farwrite::fabric::shm {

class ShmLink final : public Link {
 public:
  // `find_export` finds our export segments for the peer; `request.observer` outlives the link.
  ShmLink(Attachment attachment, const AttachRequest& request, core::EventLoop& loop,
          FindSegment find_export);
  ~ShmLink() override;

  Result<std::uint64_t> grant(const std::shared_ptr<memory::Segment>& segment, std::uint64_t offset,
                              std::uint64_t length, std::uint64_t region_id) override;
  Status revoke(std::uint64_t key, std::uint64_t region_id, core::Deadline deadline) override;
  Result<std::shared_ptr<RemoteWindow>> import(const RegionDescriptor& descriptor,
                                               core::Deadline deadline) override;
  Completion post(const Operation& operation) override;
  Progress poll(std::uint32_t lane, EventSink& sink) override;
  bool worth_polling(std::uint32_t lane) const override;
  Doorbell arm(std::uint32_t lane) override;
  void disarm(std::uint32_t lane) override;
  LinkCounters counters() const override;

 private:
  // A record that found the ring full. Its bytes, if it is a message, are a copy.
  struct Backlogged {
    RecordKind kind;
    std::uint32_t tag;
    std::vector<std::byte> payload;
    std::shared_ptr<core::CompletionState> completion;
  };

  struct Lane {
    Lane(const MailboxView& own, const MailboxView& peer, std::uint32_t index,
         core::UniqueFd own_fd, core::UniqueFd peer_fd);

    std::mutex sending;
    RingProducer producer;
    std::deque<Backlogged> backlog;
    std::size_t backlog_bytes = 0;
    std::atomic<bool> has_backlog{false};  // to look without the lock

    std::atomic_flag polling = ATOMIC_FLAG_INIT;
    RingConsumer consumer;
    std::atomic<bool> corrupt{false};  // nothing more is read from the ring

    core::UniqueFd own_doorbell;
    core::UniqueFd peer_doorbell;
  };

  Completion write(const Operation& operation);
  Completion read(const Operation& operation);
  Completion push(Lane& lane, RecordKind kind, std::uint32_t tag, ByteView payload);
  // Moves what it can from the backlog into the ring; true if something is left.
  bool drain_backlog(Lane& lane);
  void ring_if_asleep(Lane& lane);
  void poison(const Status& reason, bool dead);
  void on_peer_process_gone();
  Status corrupt_ring() const;
  Status error(StatusCode code, std::string_view operation, std::string_view cause,
               std::string_view remedy) const;

  const std::string peer_name_;
  LinkObserver* const observer_;
  core::EventLoop& loop_;
  const FindSegment find_export_;
  OwnMailbox own_mailbox_;
  PeerMailbox peer_mailbox_;
  GrantTable grants_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  core::UniqueFd pidfd_;
  std::unique_ptr<SegmentExchange> segments_;
  memory::WarmTargets warm_targets_;

  std::atomic<bool> poisoned_{false};
  std::atomic<bool> peer_dead_{false};
  mutable std::mutex reason_mutex_;
  Status reason_;

  core::Counter copies_, backlogged_, doorbells_;
};

}  // namespace farwrite::fabric::shm
