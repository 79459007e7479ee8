// TcpLink: the tcp fabric's half of a channel: one connection for each lane.
//
// A write is a frame: the posting thread hands it to the kernel from where the bytes lie, and
// the thread that polls the lane at the target checks key and bounds and receives it straight into
// place. A lane is a byte stream, so what is behind a frame comes after it: a notification behind
// its write, the answer to a flush behind all writes of the lane.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/byte_stream.h"
#include "core/mutex.h"
#include "fabric/fabric.h"
#include "fabric/tcp/export_table.h"
#include "fabric/tcp/tcp_lane.h"

namespace farwrite::fabric::tcp {

class TcpLink final : public Link {
 public:
  // One stream for each of request.lanes; the observer outlives the link.
  static Result<std::unique_ptr<TcpLink>> create(
      std::vector<std::unique_ptr<core::ByteStream>> streams, const AttachRequest& request,
      std::shared_ptr<const ExportTable> exports);
  ~TcpLink() override;

  Lane& lane(std::uint32_t index) override { return *lanes_[index]; }
  Result<std::uint64_t> grant(const std::shared_ptr<memory::Segment>& segment, std::uint64_t offset,
                              std::uint64_t length, std::uint64_t region_id) override;
  Status revoke(std::uint64_t key, std::uint64_t region_id, core::Deadline deadline) override;
  Result<std::shared_ptr<RemoteWindow>> import(const RegionDescriptor& descriptor,
                                               core::Deadline deadline) override;
  void end_reads(const Status& reason) override;
  void cut(bool in_good_order) override;
  Parting part(bool last) override;
  LinkCounters counters() const override;

 private:
  friend class TcpLane;
  // A key that the peer may write under.
  struct Grant {
    std::shared_ptr<memory::Segment> segment;
    std::uint64_t offset = 0;
    std::uint64_t length = 0;
  };

  TcpLink(const AttachRequest& request, std::shared_ptr<const ExportTable> exports);

  Completion flush();
  // What a peer's write or read touches, or why it may not.
  Result<Destination> reach_write(const FrameHeader& header) const;
  Result<Destination> reach_read(const FrameHeader& header) const;
  // The connection is over without a kEnd before: the peer is dead.
  void lane_ended(std::uint32_t lane, const Status& reason);
  // The peer broke the protocol.
  void lane_broken(const Status& reason);
  // What ends the operations of a channel that this side closed, and of one that the peer closed.
  Status closed() const;
  Status closed_by_peer() const;
  Status error(StatusCode code, std::string_view operation, std::string_view cause,
               std::string_view remedy) const;

  const std::string peer_name_;
  LinkObserver* const observer_;
  const std::shared_ptr<const ExportTable> exports_;
  mutable core::Mutex grants_mutex_{core::LockRank::kTcp};
  std::map<std::uint64_t, Grant> grants_ FW_GUARDED_BY(grants_mutex_);
  std::uint64_t last_grant_ FW_GUARDED_BY(grants_mutex_) = 0;
  std::atomic<bool> cut_{false};
  std::atomic<bool> reported_{false};  // the observer has been told of the end
  std::vector<std::unique_ptr<TcpLane>> lanes_;
};

}  // namespace farwrite::fabric::tcp
