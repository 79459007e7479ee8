#include "simulated/lane_order.h"

#include <sys/eventfd.h>

#include <utility>

namespace farwrite::fabric {

bool LaneOrder::arrive(const std::shared_ptr<Transfer>& transfer) {
  if (transfer->sequence < next_to_show_) return false;
  return arrivals_.emplace(transfer->sequence, transfer).second;
}

void LaneOrder::release(Lowering lowering) {
  for (auto next = arrivals_.begin(); next != arrivals_.end() && next->first == next_to_show_;
       next = arrivals_.erase(next), ++next_to_show_) {
    const Transfer& transfer = *next->second;
    const bool visible = transfer.over || transfer.operation.kind != OperationKind::kWrite ||
                         lowering == Lowering::kNotificationBeforeData ||
                         (lowering == Lowering::kTailFlag && transfer.tail_landed);
    if (!visible) return;
    if (transfer.failure.ok()) ready_.push_back(received(transfer));
  }
}

ReceivedNotification LaneOrder::received(const Transfer& transfer) {
  ReceivedNotification result;
  result.is_record = transfer.operation.kind == OperationKind::kRecord;
  result.notification.tag = transfer.operation.tag;
  result.notification.lane = transfer.lane;
  if (result.is_record || transfer.operation.kind == OperationKind::kMessage) {
    result.notification.message = transfer.fetched;
  }
  return result;
}

bool LaneOrder::ring() {
  if (!armed_ || rung_) return false;
  rung_ = true;
  // Cannot fail: the descriptor is ours, and the count is nowhere near its end.
  (void)::eventfd_write(doorbell_.get(), 1);
  return true;
}

void LaneOrder::silence() {
  if (!std::exchange(rung_, false)) return;
  eventfd_t rings = 0;
  (void)::eventfd_read(doorbell_.get(), &rings);
}

}  // namespace farwrite::fabric
