// HeldLease: a buffer of a segment that the server has pinned for this client.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>

#include "box/segment_state.h"
#include "device/channel.h"
#include "farwrite/bytes.h"
#include "farwrite/status.h"
#include "memory/forked_readers.h"

namespace farwrite::box {

// The server unpins the buffer when this object and every forked child that could read it have
// ended, or this process and they have. A connection's end does not. Any thread may end it.
class HeldLease {
 public:
  // Pins the newest version. kResourceExhausted if no further buffer can be pinned.
  static Result<std::shared_ptr<HeldLease>> take(const std::shared_ptr<SegmentState>& segment,
                                                 std::chrono::nanoseconds timeout);
  ~HeldLease();
  HeldLease(const HeldLease&) = delete;
  HeldLease& operator=(const HeldLease&) = delete;

  const VersionId& id() const { return id_; }
  // The server's bytes, or null where the fabric cannot map them.
  const std::byte* mapped() const { return alias_.data(); }
  // Copies `out.size` bytes from `offset` on, which the caller has checked. kDeadlineExceeded only
  // with an owner of `out`.
  Status read(MutableByteView out, std::uint64_t offset, const core::Deadline& deadline,
              const std::shared_ptr<const void>& owner) const;

 private:
  HeldLease(std::shared_ptr<SegmentState> segment, std::shared_ptr<const void> view,
            const ClientState::ReceivedReply& answer)
      : segment_(std::move(segment)),
        view_(std::move(view)),
        lease_(answer.reply.number),
        id_(answer.reply.version),
        region_(answer.lent) {}

  const std::shared_ptr<SegmentState> segment_;
  const std::shared_ptr<const void> view_;
  const std::uint64_t lease_;
  const VersionId id_;
  const std::uint64_t made_ = memory::ForkedReaders::stamp();
  const RemoteRegion region_;
  Alias alias_;  // goes first, then the region, whose end unpins the buffer
};

}  // namespace farwrite::box
