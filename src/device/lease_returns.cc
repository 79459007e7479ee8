#include "device/lease_returns.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace farwrite::device {

void LeaseReturns::tell() {
  while (true) {
    ReturnRecord returns = leases_.take_dropped();
    if (returns.leases.empty()) return;
    const Completion told = post(returns);
    if (told.done()) {
      if (!told.wait().ok()) release_each(returns);
      continue;
    }
    // The ring is full. Later returns wait for this one, so that they never pile up in the backlog.
    told.on_done([weak = self_, returns = std::move(returns)](const Status& status) {
      const std::shared_ptr<LeaseReturns> self = weak.lock();
      if (self == nullptr) return;
      if (!status.ok()) self->release_each(returns);
      self->tell();
    });
    return;
  }
}

Completion LeaseReturns::post(const ReturnRecord& returns) const {
  std::vector<std::byte> record;
  returns.write(record);
  fabric::Operation operation;
  operation.kind = fabric::OperationKind::kRecord;
  operation.source = {record.data(), record.size()};
  return post_(operation);
}

void LeaseReturns::release_each(const ReturnRecord& returns) const {
  for (const std::uint64_t lease : returns.leases) release_(ReleaseMessage{lease});
}

}  // namespace farwrite::device
