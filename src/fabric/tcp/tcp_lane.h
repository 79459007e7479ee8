// TcpLane: one lane of a TcpLink: what its frames mean, and what waits for an answer on it.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "core/byte_stream.h"
#include "core/mutex.h"
#include "core/unique_fd.h"
#include "fabric/fabric.h"
#include "fabric/link_flush.h"
#include "fabric/tcp/lane_receiver.h"
#include "fabric/tcp/lane_sender.h"

namespace farwrite::fabric::tcp {

class TcpLink;

// A peer's region, as this fabric names it. The peer checks every access.
struct TcpWindow final : RemoteWindow {
  std::uint64_t key = 0;
  std::uint64_t base = 0;  // of the region, in its segment
};

// Thread-safe but for what says otherwise.
class TcpLane final : public Lane, private FrameHandler {
 public:
  // `contended` is an eventfd.
  TcpLane(TcpLink& link, std::uint32_t index, std::unique_ptr<core::ByteStream> stream,
          core::UniqueFd contended);

  Completion post(const Operation& operation) override;
  Progress poll(EventSink& sink) override;
  Doorbell arm() override;
  // What arrives rings. Bytes that are left to send do not: the other thread armed before them.
  bool rings_for_pending() const override { return !sender_.has_queue() && !more_.load(); }

  LaneSender& sender() { return sender_; }
  LaneReceiver& receiver() { return receiver_; }
  // Joins `flush` unless no write of this lane is unanswered.
  void flush(const std::shared_ptr<LinkFlush>& flush);
  void shutdown() const { stream_->shutdown(); }
  // The peer has closed the channel, and takes nothing more. What it had sent still comes.
  void end_sending();
  // One step of Link::part().
  Link::Parting part(bool last);
  // Link::end_reads().
  void end_reads(const Status& reason);
  // Ends whatever waits for an answer. Not while the lane is polled.
  void end(const Status& reason);

 private:
  struct PendingRead {
    MutableByteView destination;
    std::shared_ptr<core::CompletionState> completion;
  };
  struct WaitingRead {
    FrameHeader header;
    PendingRead read;
  };

  Completion write(const Operation& operation);
  Completion read(const Operation& operation);
  Completion notify(FrameType type, const Operation& operation);
  // Nothing that asks for anything follows. Behind what is held back.
  Completion end_lane();

  // FrameHandler, on the polling thread.
  Destination begin(const FrameHeader& header) override;
  Status finish(const FrameHeader& header, bool landed, std::vector<std::byte>&& body) override;

  Status take_write(const FrameHeader& header, bool landed);
  Status serve_read(const FrameHeader& header);
  Status take_read_reply(const FrameHeader& header);
  Status take_refusal(const FrameHeader& header, const std::vector<std::byte>& body);
  Status take_flushed(const FrameHeader& header, const std::vector<std::byte>& body);
  void answer_flush(const FrameHeader& header);
  // Both fail when the peer has used up its credit.
  Status arrive(const FrameHeader& header, std::vector<std::byte>&& message);
  Status charge(std::uint64_t cost);
  void hand_over(EventSink& sink, Progress& progress);
  void look();
  bool awaits_answers();
  // The read that `request` names is over; starts one that waited for its place.
  std::shared_ptr<core::CompletionState> take_pending(std::uint64_t request);
  Status protocol_error(std::string_view cause) const;

  TcpLink& link_;
  const std::uint32_t index_;
  const std::unique_ptr<core::ByteStream> stream_;
  LaneSender sender_;
  LaneReceiver receiver_;

  core::Mutex requests_mutex_{core::LockRank::kTcp};
  std::uint64_t last_request_ FW_GUARDED_BY(requests_mutex_) = 0;
  std::map<std::uint64_t, PendingRead> reads_ FW_GUARDED_BY(requests_mutex_);
  std::deque<WaitingRead> waiting_reads_ FW_GUARDED_BY(requests_mutex_);
  std::map<std::uint64_t, std::shared_ptr<LinkFlush>> flushes_ FW_GUARDED_BY(requests_mutex_);
  Status ended_ FW_GUARDED_BY(requests_mutex_);  // under requests_mutex_
  std::atomic<bool> written_{false};             // since the last flush was asked

  // Held by the one thread that polls; guards what follows.
  std::atomic_flag polling_ = ATOMIC_FLAG_INIT;
  std::deque<ReceivedNotification> received_;
  std::uint64_t owed_credit_ = 0;  // taken out by our user, and not given back yet
  std::uint64_t used_credit_ = 0;  // of the peer's window
  Status refused_;                 // the first write we refused since the last flush
  Status landing_refused_;
  bool end_seen_ = false;

  // For arm(): what the last poll left.
  std::atomic<bool> over_{false};  // the connection
  std::atomic<bool> more_{false};  // news that the descriptor does not show
  std::atomic<bool> has_received_{false};
  std::atomic<bool> contended_{false};  // a thread came while another thread polled
  const core::UniqueFd contended_bell_;
};

}  // namespace farwrite::fabric::tcp
