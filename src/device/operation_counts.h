// OperationCounts: what a channel has posted, for ChannelStats.
#pragma once

#include <cstdint>

#include "core/counter.h"
#include "device/channel.h"
#include "fabric/operation.h"

namespace farwrite::device {

// Thread-safe. Inline, because every operation passes here.
class OperationCounts {
 public:
  void count(const fabric::Operation& operation) {
    switch (operation.kind) {
      case fabric::OperationKind::kWrite:
        if (operation.notify) return count_notified_write(operation.bytes());
        writes_.add();
        bytes_written_.add(operation.bytes());
        break;
      case fabric::OperationKind::kRead:
        reads_.add();
        bytes_read_.add(operation.bytes());
        break;
      case fabric::OperationKind::kNotify:
        notifications_sent_.add();
        break;
      case fabric::OperationKind::kMessage:
        count_message(operation.source.size);
        break;
      case fabric::OperationKind::kFlush:
      case fabric::OperationKind::kRecord:
      case fabric::OperationKind::kEnd:
        break;
    }
  }
  void count_notified_write(std::uint64_t bytes) {
    notified_writes_.add();
    bytes_written_.add(bytes);
  }
  // A notification, with a message unless that has no bytes.
  void count_message(std::uint64_t bytes) {
    (bytes > 0 ? messages_sent_ : notifications_sent_).add();
  }
  void count_alias(std::uint64_t bytes) {
    aliases_.add();
    bytes_aliased_.add(bytes);
  }

  void fill_in(ChannelStats& stats) const {
    const std::uint64_t notified_writes = notified_writes_.value();
    stats.writes = writes_.value() + notified_writes;
    stats.reads = reads_.value();
    stats.aliases = aliases_.value();
    stats.bytes_written = bytes_written_.value();
    stats.bytes_read = bytes_read_.value();
    stats.bytes_aliased = bytes_aliased_.value();
    stats.notifications_sent = notifications_sent_.value() + notified_writes;
    stats.messages_sent = messages_sent_.value();
  }

 private:
  core::Counter writes_;  // without a notification
  core::Counter notified_writes_, reads_, aliases_, bytes_written_, bytes_read_, bytes_aliased_;
  core::Counter notifications_sent_, messages_sent_;
};

}  // namespace farwrite::device
