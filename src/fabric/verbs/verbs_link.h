// VerbsLink: the verbs fabric's half of a channel: one queue pair for each lane.
//
// A write is an RDMA write, a read an RDMA read; neither takes the peer's CPU. A notification rides
// on its write as immediate data, or is a message where there is none. A flush reads a word of the
// peer's behind the writes of every lane. Regions are taken back by asking (revocations.h), or all
// at once by ending the connection.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/event_loop.h"
#include "core/mutex.h"
#include "fabric/fabric.h"
#include "fabric/verbs/adapter.h"
#include "fabric/verbs/cm_channel.h"
#include "fabric/verbs/protocol.h"
#include "fabric/verbs/revocations.h"
#include "fabric/verbs/verbs_lane.h"

namespace farwrite::fabric::verbs {

class VerbsLink final : public Link, public AdapterUser {
 public:
  // No lane yet. The loop outlives the link, the observer as well.
  static Result<std::unique_ptr<VerbsLink>> create(core::EventLoop& loop,
                                                   std::shared_ptr<Adapter> adapter,
                                                   const AttachRequest& request);
  ~VerbsLink() override;

  // The set-up, by one thread: every lane once, in order, then go_live().
  CmChannel& cm() { return *cm_; }
  // `id` is the link's from here on, even when this fails.
  Result<VerbsLane*> add_lane(rdma_cm_id* id);
  Status go_live();

  Lane& lane(std::uint32_t index) override { return *lanes_[index]; }
  Result<std::uint64_t> grant(const std::shared_ptr<memory::Segment>& segment, std::uint64_t offset,
                              std::uint64_t length, std::uint64_t region_id) override;
  Status revoke(std::uint64_t key, std::uint64_t region_id, core::Deadline deadline) override;
  Result<std::shared_ptr<RemoteWindow>> import(const RegionDescriptor& descriptor,
                                               core::Deadline deadline) override;
  void refine(Capabilities& capabilities) const override;
  void cut(bool in_good_order) override;
  LinkCounters counters() const override;

  // Its device is of no use any more.
  void device_failed(const std::string& sentence) override;

  // For its lanes.
  const std::string& peer_name() const { return peer_name_; }
  Status error(StatusCode code, std::string_view operation, std::string_view cause,
               std::string_view remedy) const {
    return Status::error(code, {operation, peer_name_, "verbs"}, cause, remedy);
  }
  // Of every lane.
  Completion flush();
  Status take_revoke(std::uint64_t number, ByteView regions);
  Status take_revoked(std::uint64_t number);
  // Nothing of the peer lands on one lane any more.
  void lane_flushed();
  // The connection is over without a kEnd before: the peer is dead. `proven`: by what the lane
  // itself has sent.
  void lane_ended(std::uint32_t lane, const Status& reason, bool proven);
  // The peer broke the protocol, or its adapter refused what we did.
  void lane_broken(const Status& reason);

 private:
  VerbsLink(core::EventLoop& loop, std::shared_ptr<Adapter> adapter, const AttachRequest& request);
  void on_cm_event();
  void take_cm_event(const CmEvent& event);
  // Every lane, for what ended one of them.
  void end_lanes(const Status& reason);

  core::EventLoop& loop_;
  const std::shared_ptr<Adapter> adapter_;
  const std::string peer_name_;
  LinkObserver* const observer_;
  std::unique_ptr<CmChannel> cm_;
  GrantedRegions granted_;
  ImportedRegions imported_;
  core::Mutex landing_mutex_{core::LockRank::kVerbs, 3};
  std::map<std::uint32_t, std::shared_ptr<memory::Segment>> landing_ FW_GUARDED_BY(landing_mutex_);
  std::atomic<std::size_t> flushed_{0};  // lanes
  std::atomic<bool> reported_{false};    // the observer has been told of the end
  core::Mutex end_mutex_{core::LockRank::kVerbs};
  Status end_reason_ FW_GUARDED_BY(end_mutex_);  // of the first lane that failed; under end_mutex_
  bool live_ = false;
  std::vector<std::unique_ptr<VerbsLane>> lanes_;
};

}  // namespace farwrite::fabric::verbs
