// A channel's leases without a round trip: memory lent with a message, and leases given back.
#include <string>
#include <utility>

#include "core/thread_own.h"
#include "core/trace.h"
#include "device/channel_records.h"
#include "device/channel_state.h"
#include "device/device_state.h"
#include "device/operation_trace.h"

namespace farwrite::device {

Completion ChannelState::lend(ByteView message, ByteView memory, std::function<void()> returned,
                              std::uint32_t tag, std::uint32_t lane) {
  constexpr std::string_view kOperation = "lend";
  const std::uint64_t posted = core::trace_clock();
  const core::Gate::Pass pass(gate_);
  fabric::Operation operation;
  operation.kind = fabric::OperationKind::kRecord;
  operation.tag = tag;
  operation.source = message;
  if (Status bad = check(nullptr, lane, operation); !bad.ok()) return Completion(std::move(bad));
  if (!pass || life_.peer_over()) {
    return Completion(unusable(kOperation));
  }
  LendRecord lend;
  lend.length = memory.size;
  if (Status bad = device_->find_lendable(memory, peer_.fabric, lend.key, lend.offset); !bad.ok()) {
    return Completion(std::move(bad));
  }
  auto lease = leases_.lend({lend.key, lend.offset, lend.length}, std::move(returned), peer_name_);
  if (!lease.ok()) return Completion(lease.status());
  lend.lease = *lease;
  struct LendBytes {
    std::vector<std::byte> bytes;
  };
  auto& record = core::thread_own<LendBytes>().bytes;  // keeps its memory: every tensor passes here
  lend.write(message, record);
  operation.source = {record.data(), record.size()};
  const core::Inside inside(this);
  Completion completion = operations_.post(lane, operation);
  // Until it has settled, the message may be on its way. If the lease has ended meanwhile,
  // `returned` has run, and the call has not failed.
  if (completion.done() && !completion.wait().ok()) {
    const bool failed = completion.settled() && leases_.withdraw(lend.lease);
    return failed ? completion : Completion(Status());
  }
  operations_.counts().count_message(message.size);
  if (posted != 0) [[unlikely]] {
    trace_operation({kOperation, posted, memory.size, lane, tag}, peer_name_, peer_.fabric,
                    completion);
  }
  return completion;
}

void ChannelState::on_lend(Notification&& record) {
  auto lend = LendRecord::from_bytes({record.message.data(), record.message.size()});
  if (!lend.ok()) {
    refuse(lend.status());
    return;
  }
  record.message.erase(record.message.begin(), record.message.begin() + LendRecord::kHeaderBytes);
  RegionDescriptor descriptor;
  descriptor.device_uuid = peer_.uuid;
  descriptor.epoch = peer_.epoch;
  descriptor.offset = lend->offset;
  descriptor.length = lend->length;
  descriptor.access = Access::kRead;
  descriptor.keys.push_back({peer_.fabric, lend->key});
  const bool leased = remote_leases_.hold();
  Status taken_back;
  if (!leased) {
    taken_back = Status::error(StatusCode::kUnavailable, {"map lent memory", peer_name_},
                               "the channel ended before the lease arrived", "connect again");
  }
  auto region = std::make_shared<RemoteRegionState>(
      shared_from_this(), std::move(descriptor), leased ? lend->lease : 0, std::move(taken_back));
  // Without waiting: it succeeds if the segment was seen before, and asks for it if not. A failure
  // is reported to the next caller.
  if (leased) (void)region->reach(core::Deadline::after({}));
  record.lent = RemoteRegion(std::move(region));
  inbox_.on_notification(std::move(record));
}

void ChannelState::on_return(const Notification& record) {
  auto returns = ReturnRecord::from_bytes({record.message.data(), record.message.size()});
  if (!returns.ok()) {
    refuse(returns.status());
    return;
  }
  for (const std::uint64_t lease : returns->leases) take_return(lease);
}

void ChannelState::take_return(std::uint64_t lease) {
  core::trace_instant("lease returned", to_string(peer_.fabric), peer_name_);
  leases_.release(lease);
}

bool ChannelState::may_read(std::uint64_t key, std::uint64_t offset, std::uint64_t length) {
  return leases_.covers({key, offset, length});
}

void ChannelState::hold_remote(std::uint64_t lease, std::uint64_t made) {
  if (!device_->fork_guard().in_forked_child()) held_leases_.add(lease, made);
}

void ChannelState::release_held() {
  for (const std::uint64_t lease : held_leases_.take()) release_remote(lease);
}

void ChannelState::release_remote(std::uint64_t lease) {
  if (device_->fork_guard().in_forked_child()) return;
  if (remote_leases_.drop(lease)) lease_returns_.tell();
  say_fin_if_due();
  finish_if_due();
}

Completion ChannelState::post_return(const fabric::Operation& record) {
  const core::Gate::Pass pass(gate_);
  if (!pass || life_.peer_over()) {
    return Completion(Status(StatusCode::kUnavailable, "the lanes have ended"));
  }
  return operations_.post(peer_.lanes, record);
}

}  // namespace farwrite::device
