// Port: the named edges of a channel, for all its TensorSenders and TensorReceivers: a pull
// interface over the engine.
//
// Leader and follower: a thread that finds its queue empty takes the channel's notifications, also
// those of others, until its own is there; then the next waiting thread does. So nothing is woken
// up twice, and no thread is ours.
//
// One mutex guards the edges and what has arrived on them. Taken before the engine's. Never held
// while payload moves, or while anything is destroyed that may call the channel.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "core/deadline.h"
#include "core/mutex.h"
#include "device/channel.h"
#include "device/channel_extension.h"
#include "fabric/notified_writes.h"
#include "transfer/engine.h"
#include "transfer/records.h"
#include "transfer/tensor.h"

namespace farwrite::transfer {

class ReceiverState;

// An edge that the peer receives, as it announced it. Under the port's mutex.
struct PeerEdge {
  EdgeRecord record;
  std::size_t announced = 0;  // of record.slots
  std::uint32_t round = 0;
  bool closed = false;               // by the receiver
  bool claimed = false;              // a sender has it
  std::uint64_t taken = 0;           // every tensor up to this one was received or dropped
  CreditTable::Counts last_credits;  // once it is closed

  bool complete() const { return announced == record.slots; }
};

// The engine's key of a named edge.
std::string key_of(std::uint32_t edge);

// Belongs to the channel and holds nothing of it: callers bring their handle. Thread-safe.
class Port final : public EngineUser,
                   public device::ChannelExtension,
                   public std::enable_shared_from_this<Port> {
 public:
  static std::shared_ptr<Port> of(const Channel& channel);
  // An error if something else takes the channel's notifications.
  static Status check_free(const Channel& channel);
  Engine& engine() { return *engine_; }
  // How notified writes are made there.
  static fabric::LoweringChoice lowering_of(const Channel& channel);
  // Whether `forced` is available there, and is what the channel does.
  static Status check_lowering(const Channel& channel, NotificationLowering forced);
  // Bytes that its peer may hold in leases at once.
  static std::uint64_t send_limit_of(const Channel& channel);
  // Segments that the channel's device has registered so far.
  static std::uint64_t registrations_of(const Channel& channel);

  core::Mutex& mutex() FW_RETURN_CAPABILITY(mutex_) { return mutex_; }

  // Takes what comes, for all callers, until `arrived`, which is called under the mutex, is true.
  // kDeadlineExceeded, or why nothing will come any more. `polled`: `arrived` has to look at memory
  // that nothing announces.
  Status wait(Channel& channel, const std::function<bool()>& arrived, core::Deadline deadline,
              bool polled = false);
  // Takes what is there, unless something takes already.
  void drain(Channel& channel);

  // Why nothing will come any more, or ok.
  const Status& ended() const FW_REQUIRES(mutex_) { return ended_; }
  // The thread that waits in wait(), or on the channel's descriptor.
  void wake_all(const Channel& channel);

  // Gives a receiver its number. kAlreadyExists if the name is taken.
  Status add_receiver(const std::string& name, const std::shared_ptr<ReceiverState>& receiver,
                      std::uint32_t& edge) FW_REQUIRES(mutex_);
  void remove_receiver(const std::string& name, std::uint32_t edge) FW_REQUIRES(mutex_);
  // Sends the sender of an edge how far its stream is taken: immediately, or with later reports
  // after a moment. So a fast stream does not cost a record for each tensor.
  void report_taken(const Channel& channel, std::uint32_t lane, const TakenRecord& taken,
                    bool immediately) FW_REQUIRES(mutex_);
  // The reports that wait for the moment.
  void send_reports() FW_REQUIRES(mutex_);
  // The peer's latest edge of that name, once it is announced wholly and while it is open.
  std::shared_ptr<PeerEdge> find_edge(const std::string& name) const FW_REQUIRES(mutex_);

  // A sender waits for the last report, of a receiver that has taken all and need not wait for it.
  void channel_closes() override;
  bool in_use() override;

 private:
  // From the engine.
  Status on_tensor(LandedTensor tensor) override;
  void on_stale(const std::string& edge, ByteView description) override;
  Status on_misfit(const std::string& edge, PushVerdict verdict) override;
  Status on_unknown_slot(std::uint32_t slot) override;
  Status on_message(Notification notification) override;
  Status on_slots(const std::string& edge, std::size_t count) override;
  Status on_reset(const std::string& edge, std::uint32_t round) override;

  // `found`: whether it took anything.
  void stop_leading(const Channel& channel, bool found) FW_REQUIRES(mutex_);
  Status dispatch(Notification notification);
  Status take_edge(ByteView message);
  Status take_offer(Notification& notification);
  Status take_closed(ByteView message);
  Status take_taken(ByteView message);
  // Null if it is closed. The caller drops it after the lock.
  std::shared_ptr<ReceiverState> receiver_of(const std::string& edge) const FW_REQUIRES(mutex_);
  PeerEdge* peer_edge(const std::string& edge) const FW_REQUIRES(mutex_);

  struct Report {
    std::uint32_t lane = 0;
    std::uint64_t sequence = 0;
  };

  std::shared_ptr<Engine> engine_;
  std::uint32_t lanes_ = 0;
  std::uint64_t peer_epoch_ = 0;
  core::Mutex mutex_{core::LockRank::kTransfer, 1};
  core::CondVar changed_;
  bool led_ FW_GUARDED_BY(mutex_) = false;
  Status ended_ FW_GUARDED_BY(mutex_);
  std::uint32_t last_edge_ FW_GUARDED_BY(mutex_) = 0;
  std::map<std::uint32_t, std::weak_ptr<ReceiverState>> receivers_
      FW_GUARDED_BY(mutex_);                                          // by edge
  std::map<std::string, std::uint32_t> names_ FW_GUARDED_BY(mutex_);  // of the open ones
  std::map<std::uint32_t, std::shared_ptr<PeerEdge>> peer_edges_
      FW_GUARDED_BY(mutex_);                                       // until the receiver closes
  std::map<std::uint32_t, Report> reports_ FW_GUARDED_BY(mutex_);  // to send, by edge
  std::chrono::steady_clock::time_point reported_ FW_GUARDED_BY(mutex_){};  // the last time
  bool reports_are_due_ FW_GUARDED_BY(mutex_) = false;                      // the control loop will
};

}  // namespace farwrite::transfer
