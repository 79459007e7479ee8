#include "transfer/record_queue.h"

#include <algorithm>
#include <utility>

namespace farwrite::transfer {

void RecordQueue::gather_grants() {
  for (std::size_t at = 0; at < grants_.size(); at += GrantRecord::kMaxEntries) {
    const std::size_t count = std::min(grants_.size() - at, GrantRecord::kMaxEntries);
    const auto first = grants_.begin() + static_cast<std::ptrdiff_t>(at);
    const GrantRecord record{{first, first + static_cast<std::ptrdiff_t>(count)}};
    records_.push_back({RecordType::kGrant, {}, record.encode()});
  }
  grants_.clear();
}

void RecordQueue::add_reset(const ResetRecord& reset) {
  gather_grants();
  std::erase_if(records_, [&](const Record& record) {
    return record.type == RecordType::kReset && record.edge == reset.edge;
  });
  records_.push_back({RecordType::kReset, reset.edge, reset.encode()});
}

void RecordQueue::flush(Channel& channel, std::uint32_t lane) {
  gather_grants();
  while (!records_.empty()) {
    const Record& record = records_.front();
    const Completion sent =
        channel.send({record.bytes.data(), record.bytes.size()}, tag_of(record.type), lane);
    if (sent.done() && sent.wait().code() == StatusCode::kResourceExhausted) return;
    records_.pop_front();
  }
}

}  // namespace farwrite::transfer
