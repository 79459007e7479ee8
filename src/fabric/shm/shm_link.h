// ShmLink: the shm fabric's half of a channel.
//
// A write is one copy by the calling thread straight into the peer's landing memory, a read one
// copy out of the peer's export memory; both are over when post() returns. A notification is a
// record in the peer's ring, released after the copy.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "core/event_loop.h"
#include "core/mutex.h"
#include "core/unique_fd.h"
#include "fabric/fabric.h"
#include "fabric/shm/attach.h"
#include "fabric/shm/grant_table.h"
#include "fabric/shm/segment_exchange.h"
#include "fabric/shm/shm_lane.h"
#include "memory/copy_choice.h"

namespace farwrite::fabric::shm {

class ShmLink final : public Link {
 public:
  // `find_export` finds our export segments for the peer; `request.observer` outlives the link.
  ShmLink(Attachment attachment, const AttachRequest& request, core::EventLoop& loop,
          std::chrono::nanoseconds idle_time, FindSegment find_export);
  ~ShmLink() override;

  Lane& lane(std::uint32_t index) override { return *lanes_[index]; }
  Result<std::uint64_t> grant(const std::shared_ptr<memory::Segment>& segment, std::uint64_t offset,
                              std::uint64_t length, std::uint64_t region_id) override;
  Status revoke(std::uint64_t key, std::uint64_t region_id, core::Deadline deadline) override;
  Result<std::shared_ptr<RemoteWindow>> import(const RegionDescriptor& descriptor,
                                               core::Deadline deadline) override;
  bool read_by_children() override;
  LinkCounters counters() const override;

  // For its lanes.
  const std::string& peer_name() const { return peer_name_; }
  const GrantTable& grants() const { return grants_; }
  memory::CopyChoice& copy_choice() { return copy_choice_; }
  bool poisoned() const { return poisoned_.load(std::memory_order_relaxed); }
  Status reason() const;
  // Nothing is posted any more: it ends with `reason`. `dead`: the peer's process is gone.
  void poison(const Status& reason, bool dead);
  Status error(StatusCode code, std::string_view operation, std::string_view cause,
               std::string_view remedy) const;

 private:
  void on_peer_process_gone();
  // The peer may have closed normally just before its end: what it said is read first.
  void tell_death_in_time();

  const std::string peer_name_;
  LinkObserver* const observer_;
  core::EventLoop& loop_;
  const FindSegment find_export_;
  OwnMailbox own_mailbox_;
  PeerMailbox peer_mailbox_;
  GrantTable grants_;
  memory::CopyChoice copy_choice_;
  std::vector<std::unique_ptr<ShmLane>> lanes_;
  core::UniqueFd pidfd_;
  std::unique_ptr<SegmentExchange> segments_;

  std::atomic<bool> poisoned_{false};
  std::atomic<bool> peer_dead_{false};
  int turns_to_listen_ = 0;  // of the loop's thread
  std::atomic<core::EventLoop::TimerId> tells_death_{0};
  mutable core::Mutex reason_mutex_{core::LockRank::kShm};
  Status reason_ FW_GUARDED_BY(reason_mutex_);
};

}  // namespace farwrite::fabric::shm
