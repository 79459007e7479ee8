// SenderState: everything behind a TensorSender.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/counter.h"
#include "core/deadline.h"
#include "core/fork_guard.h"
#include "core/mutex.h"
#include "device/device.h"
#include "transfer/port.h"
#include "transfer/tensor.h"

namespace farwrite::transfer {

// Thread-safe. Locks: sending_, then the port's mutex.
class SenderState {
 public:
  static Result<std::shared_ptr<SenderState>> open(const Device& device, const Channel& channel,
                                                   std::string_view name,
                                                   std::chrono::nanoseconds timeout);
  ~SenderState();

  EdgeKind kind() const { return edge_->record.kind; }
  const TensorSpec& announced() const { return edge_->record.spec; }
  Completion send(const TensorSpec& spec, ByteView bytes, std::chrono::nanoseconds timeout);
  TensorStats stats();
  Status close(std::chrono::nanoseconds timeout);
  Status abandon();

 private:
  SenderState(const Device& device, const Channel& channel, std::string_view name);
  Status claim(core::Deadline deadline);
  Status check(const TensorSpec& spec, ByteView bytes) const;
  Status over() const FW_REQUIRES(port_->mutex());
  // kDeadlineExceeded. If the peer is silent, the sentence has that as the cause, and its remedy.
  Status late(std::string_view operation, const std::string& cause, std::string_view remedy) const;
  // Once.
  void tell_of_long_close(const std::string& took);
  // Sends the end mark, once. Returns the number of the last tensor.
  std::uint64_t end_stream(bool abandoned);

  // What one attempt to send a tensor leaves for the next.
  struct Attempt {
    std::shared_ptr<std::byte> staged;  // the copy of a source that is not registered
    // It was refused, and a later one may succeed even if the receiver holds nothing: the lane was
    // full, or a report of the receiver is on its way.
    bool hopeful = false;
  };
  Completion send_now(const TensorSpec& spec, ByteView bytes, Attempt& attempt);
  bool receiver_holds_nothing();
  void wait_for_room(std::uint64_t bytes, core::Deadline deadline);

  // Under sending_.
  Completion push(const CreditTable::Taken& taken, const TensorSpec& spec, ByteView bytes)
      FW_REQUIRES(sending_);
  Completion write_with_tail_flag(const CreditTable::Taken& taken,
                                  std::vector<std::byte> description, ByteView bytes);
  // `may_be_eager`: the tensor may travel in its offer.
  Completion offer(std::uint32_t round, bool may_be_eager, const TensorSpec& spec, ByteView bytes,
                   Attempt& attempt) FW_REQUIRES(sending_);
  // `in_place`: the bytes lie in the device's memory. Else their copy is lent.
  Completion lend(const std::vector<std::byte>& record, ByteView bytes, bool in_place,
                  std::shared_ptr<std::byte>& staged);
  Completion send_eagerly(std::vector<std::byte> record, ByteView bytes);
  Status stage(ByteView bytes, std::shared_ptr<std::byte>& staged);
  bool registered(ByteView bytes) const;

  Device device_;
  Channel channel_;
  const std::shared_ptr<Port> port_;
  const std::string name_;
  const core::ForkGuard fork_guard_;
  const std::uint64_t registrations_before_;
  const std::uint64_t max_message_bytes_;
  const std::uint64_t most_lent_bytes_;  // at once
  std::shared_ptr<PeerEdge> edge_;       // its record never changes
  std::string key_;                      // of the edge, for the engine

  core::Mutex sending_{core::LockRank::kTransfer, 2};  // one tensor at a time, in sequence
  bool closed_ FW_GUARDED_BY(sending_) = false;
  bool abandoned_ FW_GUARDED_BY(sending_) = false;
  bool all_known_ FW_GUARDED_BY(sending_) =
      false;  // close() has returned what became of the tensors
  std::uint64_t last_sequence_ FW_GUARDED_BY(sending_) = 0;
  std::optional<std::chrono::steady_clock::time_point> refused_since_
      FW_GUARDED_BY(sending_);  // until one is sent
  bool long_wait_told_ FW_GUARDED_BY(sending_) = false;
  // When close() has taken long, counted from its first call; never once that was told.
  std::optional<core::Deadline> close_is_long_ FW_GUARDED_BY(sending_);

  core::Counter pushed_, offered_, offers_no_slot_, staged_, eager_, allocations_, requests_;
};

}  // namespace farwrite::transfer
