// SenderState: everything behind a TensorSender.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/counter.h"
#include "core/deadline.h"
#include "core/fork_guard.h"
#include "core/ordered_mutex.h"
#include "farwrite/device.h"
#include "farwrite/tensor.h"
#include "transfer/port.h"

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
  Completion send(const TensorSpec& spec, ByteView bytes);
  TensorStats stats();
  Status close(std::chrono::nanoseconds timeout);
  Status abandon();

 private:
  SenderState(const Device& device, const Channel& channel, std::string_view name);
  Status claim(core::Deadline deadline);
  Status check(const TensorSpec& spec, ByteView bytes) const;
  Status over() const;
  // Sends the end mark, once. Returns the number of the last tensor.
  std::uint64_t end_stream(bool abandoned);

  // Under sending_.
  Completion push(const CreditTable::Taken& taken, const TensorSpec& spec, ByteView bytes);
  Completion write_with_tail_flag(const CreditTable::Taken& taken,
                                  std::vector<std::byte> description, ByteView bytes);
  Completion offer(std::uint32_t round, const TensorSpec& spec, ByteView bytes);
  Completion lend(const std::vector<std::byte>& record, ByteView bytes);

  const Device device_;
  Channel channel_;
  const std::shared_ptr<Port> port_;
  const std::string name_;
  const core::ForkGuard fork_guard_;
  const std::uint64_t registrations_before_;
  std::shared_ptr<PeerEdge> edge_;  // its record never changes
  std::string key_;                 // of the edge, for the engine

  core::OrderedMutex<core::LockRank::kTensorSender> sending_;  // one tensor at a time, in sequence
  bool closed_ = false;
  bool abandoned_ = false;
  bool all_known_ = false;  // close() has returned what became of the tensors
  std::uint64_t last_sequence_ = 0;

  core::Counter pushed_, offered_, offers_no_slot_, staged_, allocations_, requests_;
};

}  // namespace farwrite::transfer
