// RecordQueue: the records about slots that one lane has to send, in order.
//
// Sending never blocks, and it fails while the peer takes nothing: then the records wait here, and
// the next flush() goes on. Grants of slots gather into one record. Thread-compatible.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "farwrite/channel.h"
#include "transfer/records.h"

namespace farwrite::transfer {

class RecordQueue {
 public:
  void add(RecordType type, std::vector<std::byte> record) {
    gather_grants();
    records_.push_back({type, {}, std::move(record)});
  }
  void add_grant(Credit credit) { grants_.push_back(credit); }
  // An abort of the edge. A reset that is still here is replaced: this one names all credits that
  // it named.
  void add_reset(const ResetRecord& reset);

  bool empty() const { return records_.empty() && grants_.empty(); }
  // Sends what the channel takes. A channel that has ended takes everything, to no effect.
  void flush(Channel& channel, std::uint32_t lane);

 private:
  struct Record {
    RecordType type;
    std::string edge;  // of a reset
    std::vector<std::byte> bytes;
  };
  void gather_grants();

  std::deque<Record> records_;
  std::vector<Credit> grants_;  // behind the records
};

}  // namespace farwrite::transfer
