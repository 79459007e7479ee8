#include "fabric/verbs/verbs_link.h"

#include <sys/epoll.h>

#include <algorithm>
#include <utility>

#include "core/channel_end.h"
#include "core/mutex.h"
#include "core/wire.h"
#include "fabric/link_flush.h"

namespace farwrite::fabric::verbs {
namespace {

// How long cutting a connection waits for its receives to come back.
constexpr std::chrono::nanoseconds kFlush = std::chrono::milliseconds(100);

}  // namespace

Result<std::unique_ptr<VerbsLink>> VerbsLink::create(core::EventLoop& loop,
                                                     std::shared_ptr<Adapter> adapter,
                                                     const AttachRequest& request) {
  std::unique_ptr<VerbsLink> link(new VerbsLink(loop, std::move(adapter), request));
  auto channel = CmChannel::create(link->adapter_->library());
  if (!channel.ok()) return channel.status();
  link->cm_ = *std::move(channel);
  return link;
}

VerbsLink::VerbsLink(core::EventLoop& loop, std::shared_ptr<Adapter> adapter,
                     const AttachRequest& request)
    : loop_(loop),
      adapter_(std::move(adapter)),
      peer_name_(request.peer_name),
      observer_(request.observer),
      granted_(peer_name_, request.lanes,
               [this](std::uint64_t number, const std::vector<std::uint64_t>& regions) {
                 const std::vector<std::byte> bytes = regions_to_bytes(regions);
                 (void)lanes_.front()->sender().control(MessageType::kRevoke, number,
                                                        {bytes.data(), bytes.size()});
               }) {}

VerbsLink::~VerbsLink() {
  adapter_->remove(*this);
  if (live_) loop_.remove_fd(cm_->fd());
  const Status reason = error(StatusCode::kCancelled, core::kUseTheChannel,
                              "the channel was closed", "keep it open until its operations end");
  for (const auto& lane : lanes_) lane->close(reason);
  granted_.settle_all();
  for (const auto& [id, segment] : landing_) adapter_->registrations().remove_segment(*segment);
}

Result<VerbsLane*> VerbsLink::add_lane(rdma_cm_id* id) {
  lanes_.push_back(
      std::make_unique<VerbsLane>(*this, static_cast<std::uint32_t>(lanes_.size()), *adapter_));
  FARWRITE_RETURN_IF_ERROR(lanes_.back()->open(id));
  return lanes_.back().get();
}

Status VerbsLink::go_live() {
  live_ = true;
  adapter_->add(*this);
  for (const CmEvent& event : cm_->take_passed_over()) take_cm_event(event);
  return loop_.add_fd(cm_->fd(), EPOLLIN, [this](std::uint32_t) { on_cm_event(); });
}

void VerbsLink::device_failed(const std::string& sentence) {
  for (const auto& lane : lanes_) {
    lane->fail(error(StatusCode::kUnavailable, core::kUseTheChannel, sentence,
                     "connect again once the adapter works"));
  }
}

void VerbsLink::on_cm_event() {
  while (const std::optional<CmEvent> event = cm_->take()) take_cm_event(*event);
}

void VerbsLink::take_cm_event(const CmEvent& event) {
  if (event.type == RDMA_CM_EVENT_DEVICE_REMOVAL) return device_failed("the adapter was removed");
  if (event.type != RDMA_CM_EVENT_DISCONNECTED) return;
  for (const auto& lane : lanes_) {
    // Its receives come back now, and behind the last one its end is known.
    if (lane->id() == event.id) lane->shut();
  }
}

Result<std::uint64_t> VerbsLink::grant(const std::shared_ptr<memory::Segment>& segment,
                                       std::uint64_t offset, std::uint64_t length,
                                       std::uint64_t region_id) {
  if (offset > segment->bytes() || length > segment->bytes() - offset) {
    return error(StatusCode::kOutOfRange, "grant", "the bytes leave their segment",
                 "stay inside the segment");
  }
  unsigned access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
  if (adapter_->relaxed_ordering()) access |= IBV_ACCESS_RELAXED_ORDERING;
  std::shared_ptr<Registration> registration;
  {
    const core::Lock lock(landing_mutex_);
    auto added = adapter_->registrations().add_segment(segment, access);
    if (!added.ok()) return added.status();
    registration = *std::move(added);
    landing_.emplace(segment->id(), segment);
  }
  granted_.add(region_id);
  const auto address = reinterpret_cast<std::uintptr_t>(segment->base());
  return SegmentKey{address, registration->remote_key()}.pack();
}

Status VerbsLink::revoke(std::uint64_t /*key*/, std::uint64_t region_id, core::Deadline deadline) {
  return granted_.revoke(region_id, deadline);
}

Status VerbsLink::take_revoke(std::uint64_t number, ByteView bytes) {
  auto regions = regions_from_bytes(bytes);
  if (!regions.ok()) return regions.status();
  imported_.revoke(*regions);
  bool taken = true;
  for (const auto& lane : lanes_) {
    taken = lane->sender().control(MessageType::kRevoked, number) && taken;
  }
  return taken ? Status()
               : error(StatusCode::kProtocolError, "exchange messages with the peer",
                       "the peer sends requests and receives no answers", core::kBrokenRule);
}

Status VerbsLink::take_revoked(std::uint64_t number) {
  const GrantedRegions::RevocationAnswer answer = granted_.answered(number);
  if (answer == GrantedRegions::RevocationAnswer::kUnasked) {
    return error(StatusCode::kProtocolError, "read from the peer",
                 "the peer answers a revocation that was not requested", core::kBrokenRule);
  }
  if (answer == GrantedRegions::RevocationAnswer::kLast && observer_ != nullptr)
    observer_->on_revoked();
  return Status();
}

Result<std::shared_ptr<RemoteWindow>> VerbsLink::import(const RegionDescriptor& descriptor,
                                                        core::Deadline /*deadline*/) {
  const auto key =
      std::find_if(descriptor.keys.begin(), descriptor.keys.end(),
                   [](const FabricKey& entry) { return entry.fabric == FabricKind::kVerbs; });
  if (key == descriptor.keys.end()) {
    return error(StatusCode::kUnavailable, "open memory", "the descriptor has no key for verbs",
                 "ask its owner for a descriptor that was made while verbs was in use");
  }
  const SegmentKey segment = SegmentKey::unpack(key->key);
  auto window = std::make_shared<VerbsWindow>();
  window->length = descriptor.length;
  window->address = segment.address + descriptor.offset;
  window->remote_key = segment.remote_key;
  if (descriptor.access == Access::kWrite) {
    FARWRITE_RETURN_IF_ERROR(imported_.add(descriptor.region_id, window));
  }
  return std::shared_ptr<RemoteWindow>(std::move(window));
}

Completion VerbsLink::flush() {
  return LinkFlush::of(lanes_, [](VerbsLane& lane, const std::shared_ptr<LinkFlush>& flush) {
    auto answer = std::make_shared<core::CompletionState>();
    answer->on_done([flush](const Status& status) { flush->answered(status); });
    flush->asked();
    if (!lane.sender().flush(answer)) flush->answered(Status());
  });
}

void VerbsLink::refine(Capabilities& capabilities) const {
  const bool in_order = std::all_of(lanes_.begin(), lanes_.end(),
                                    [](const auto& lane) { return lane->peer().data_in_order; });
  if (!in_order) capabilities.whole_message_order = false;
}

void VerbsLink::cut(bool /*in_good_order*/) {
  for (const auto& lane : lanes_) lane->shut();
  // A queue pair in error takes nothing more. An adapter in software may be in the middle of a
  // packet then; when the receives come back, or in this time, it has finished that.
  const core::Deadline deadline = core::Deadline::after(kFlush);
  for (const auto& lane : lanes_) lane->wait_for_flush(deadline);
  granted_.settle_all();
}

void VerbsLink::lane_flushed() {
  if (flushed_.fetch_add(1) + 1 < lanes_.size()) return;
  granted_.settle_all();
  if (observer_ != nullptr) observer_->on_revoked();
}

void VerbsLink::end_lanes(const Status& reason) {
  {
    const core::Lock lock(end_mutex_);
    if (end_reason_.ok()) end_reason_ = reason;
  }
  for (const auto& lane : lanes_) lane->sender().end(reason);
  for (const auto& lane : lanes_) lane->shut();
}

void VerbsLink::lane_ended(std::uint32_t lane, const Status& reason, bool proven) {
  if (proven) end_lanes(reason);
  // The last lane may be one whose end nothing announces: the others' ends say whether the peer
  // left normally.
  if (lane > 0 && lane + 1 == lanes_.size()) return;
  if (observer_ == nullptr || reported_.exchange(true)) return;
  Status first;
  {
    const core::Lock lock(end_mutex_);
    first = end_reason_.ok() ? reason : end_reason_;
  }
  observer_->on_peer_dead(first);
}

void VerbsLink::lane_broken(const Status& reason) {
  const bool first = !reported_.exchange(true);  // before the other lanes see their end
  end_lanes(reason);
  if (observer_ != nullptr && first) observer_->on_link_error(reason);
}

LinkCounters VerbsLink::counters() const {
  LinkCounters counters;
  for (const auto& lane : lanes_) {
    counters.copies += lane->sender().counters().copies.value();
    counters.backlogged += lane->sender().backlogged();
  }
  return counters;
}

}  // namespace farwrite::fabric::verbs
