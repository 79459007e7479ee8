#include "fabric/tcp/tcp_link.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "core/channel_end.h"
#include "core/mutex.h"

namespace farwrite::fabric::tcp {
namespace {

// Written so that no sum can wrap around: offset and length come from the peer.
bool inside(std::uint64_t offset, std::uint64_t length, std::uint64_t begin, std::uint64_t bytes) {
  return offset >= begin && offset - begin <= bytes && length <= bytes - (offset - begin);
}

}  // namespace

Result<std::unique_ptr<TcpLink>> TcpLink::create(
    std::vector<std::unique_ptr<core::ByteStream>> streams, const AttachRequest& request,
    std::shared_ptr<const ExportTable> exports) {
  std::unique_ptr<TcpLink> link(new TcpLink(request, std::move(exports)));
  std::uint32_t index = 0;
  for (auto& stream : streams) {
    core::UniqueFd contended(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!contended.valid()) {
      return Status::system_error(StatusCode::kResourceExhausted, {"connect", request.peer_name},
                                  "no descriptor for a lane", errno,
                                  "raise the limit of open files (ulimit -n)");
    }
    link->lanes_.push_back(
        std::make_unique<TcpLane>(*link, index++, std::move(stream), std::move(contended)));
  }
  return link;
}

TcpLink::TcpLink(const AttachRequest& request, std::shared_ptr<const ExportTable> exports)
    : peer_name_(request.peer_name), observer_(request.observer), exports_(std::move(exports)) {}

TcpLink::~TcpLink() {
  for (const auto& lane : lanes_) lane->shutdown();
  for (const auto& lane : lanes_) lane->end(closed());
}

Status TcpLink::closed() const {
  return error(StatusCode::kCancelled, core::kUseTheChannel, "the channel was closed",
               "keep it open until its operations end");
}

Status TcpLink::closed_by_peer() const {
  return error(StatusCode::kUnavailable, core::kUseTheChannel, "the peer closed the channel",
               "connect again");
}

Status TcpLink::error(StatusCode code, std::string_view operation, std::string_view cause,
                      std::string_view remedy) const {
  return Status::error(code, {operation, peer_name_, "tcp"}, cause, remedy);
}

Result<std::uint64_t> TcpLink::grant(const std::shared_ptr<memory::Segment>& segment,
                                     std::uint64_t offset, std::uint64_t length,
                                     std::uint64_t /*region_id*/) {
  if (!inside(offset, length, 0, segment->bytes())) {
    return error(StatusCode::kOutOfRange, "grant", "the bytes leave their segment",
                 "stay inside the segment");
  }
  const core::Lock lock(grants_mutex_);
  const std::uint64_t key = kGrantBit | ++last_grant_;
  grants_.emplace(key, Grant{segment, offset, length});
  return key;
}

Status TcpLink::revoke(std::uint64_t key, std::uint64_t /*region_id*/,
                       core::Deadline /*deadline*/) {
  {
    const core::Lock lock(grants_mutex_);
    grants_.erase(key);
  }
  // What is landing right now goes nowhere from here on. Also for a key that is gone already:
  // another thread may be here just now.
  for (const auto& lane : lanes_) lane->receiver().forget(key);
  return Status();
}

Result<std::shared_ptr<RemoteWindow>> TcpLink::import(const RegionDescriptor& descriptor,
                                                      core::Deadline /*deadline*/) {
  const auto key =
      std::find_if(descriptor.keys.begin(), descriptor.keys.end(),
                   [](const FabricKey& entry) { return entry.fabric == FabricKind::kTcp; });
  if (key == descriptor.keys.end()) {
    return error(StatusCode::kUnavailable, "open memory", "the descriptor has no key for tcp",
                 "ask its owner for a descriptor that was made while tcp was in use");
  }
  auto window = std::make_shared<TcpWindow>();
  window->length = descriptor.length;
  window->key = key->key;
  window->base = descriptor.offset;
  return std::shared_ptr<RemoteWindow>(std::move(window));
}

Result<Destination> TcpLink::reach_write(const FrameHeader& header) const {
  const core::Lock lock(grants_mutex_);
  const auto found = grants_.find(header.key);
  if (found == grants_.end()) {
    if ((header.key & kGrantBit) == 0) {
      return error(StatusCode::kPermissionDenied, "write", "the peer's memory is read-only",
                   "write to memory that the peer allocated for this channel");
    }
    const bool once = (header.key & ~kGrantBit) <= last_grant_;
    return error(once ? StatusCode::kFailedPrecondition : StatusCode::kNotFound, "write",
                 once ? "the memory was closed by its owner" : "the peer has no such memory",
                 "ask the peer for other memory");
  }
  const Grant& grant = found->second;
  if (!inside(header.offset, header.length, grant.offset, grant.length)) {
    return error(StatusCode::kOutOfRange, "write", "the bytes leave the peer's memory",
                 "stay inside it");
  }
  return Destination{grant.segment->base() + header.offset, header.key, grant.segment};
}

Result<Destination> TcpLink::reach_read(const FrameHeader& header) const {
  if (cut_.load()) {
    return error(StatusCode::kUnavailable, "read", "the channel has ended", "connect again");
  }
  if ((header.key & kGrantBit) != 0) {
    return error(StatusCode::kPermissionDenied, "read", "the peer's memory is for writing only",
                 "use memory that the peer allocated with its device's allocate()");
  }
  std::shared_ptr<memory::Segment> segment = exports_->find(header.key);
  if (segment == nullptr) {
    return error(StatusCode::kNotFound, "read", "the peer has no such memory",
                 "use a descriptor that the peer made in this start");
  }
  if (!inside(header.offset, header.length, 0, segment->bytes())) {
    return error(StatusCode::kOutOfRange, "read", "the bytes leave the peer's memory",
                 "stay inside it");
  }
  if (observer_ == nullptr || !observer_->may_read(header.key, header.offset, header.length)) {
    return error(StatusCode::kPermissionDenied, "read",
                 "the reader holds no lease on all of these bytes",
                 "read what lookup() or open() returned, and keep it until the read has ended");
  }
  std::byte* const data = segment->base() + header.offset;
  return Destination{data, 0, std::move(segment)};
}

Completion TcpLink::flush() {
  return LinkFlush::of(
      lanes_, [](TcpLane& lane, const std::shared_ptr<LinkFlush>& flush) { lane.flush(flush); });
}

void TcpLink::end_reads(const Status& reason) {
  for (const auto& lane : lanes_) lane->end_reads(reason);
}

void TcpLink::cut(bool in_good_order) {
  cut_.store(true);
  for (const auto& lane : lanes_) {
    // A socket that is shut down for receiving resets the connection when more bytes come, and
    // the reset drops the rest of what the peer had sent.
    if (in_good_order) {
      lane->end_sending();
    } else {
      lane->shutdown();
    }
  }
}

Link::Parting TcpLink::part(bool last) {
  reported_.store(true);  // the ends of the lanes are expected
  Parting parting = Parting::kOver;
  for (const auto& lane : lanes_) parting = std::min(parting, lane->part(last));
  return parting;
}

void TcpLink::lane_ended(std::uint32_t lane, const Status& reason) {
  // The last lane may be one whose end nothing announces: the others' ends say whether the peer
  // left normally.
  if (lane > 0 && lane + 1 == lanes_.size()) return;
  if (observer_ != nullptr && !reported_.exchange(true)) observer_->on_peer_dead(reason);
}

void TcpLink::lane_broken(const Status& reason) {
  const bool first = !reported_.exchange(true);  // before the other lanes see their end
  cut(/*in_good_order=*/false);
  if (observer_ != nullptr && first) observer_->on_link_error(reason);
}

LinkCounters TcpLink::counters() const {
  LinkCounters counters;
  for (const auto& lane : lanes_) {
    counters.copies += lane->receiver().copies();
    counters.backlogged += lane->sender().backlogged();
  }
  return counters;
}

}  // namespace farwrite::fabric::tcp
