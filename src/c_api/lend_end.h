// LendEnd: who ends a lease of fw_channel_lend(), the call that failed or the callback.
#pragma once

#include <atomic>

#include "farwrite/c_channel.h"

namespace farwrite::c_api {

// The peer may end while the message waits behind others. Then the lease ends on another thread
// while this one sees that the message failed: exactly one of the two says so to the program.
class LendEnd {
 public:
  LendEnd(fw_returned returned, void* context) : returned_(returned), context_(context) {}

  // The lease has ended. Tells the program, unless the call has failed.
  void end() {
    if (!decided_.exchange(true) && returned_ != nullptr) returned_(context_);
  }
  // The call fails. False if the program was told already.
  bool withdraw() { return !decided_.exchange(true); }

 private:
  const fw_returned returned_;
  void* const context_;
  std::atomic<bool> decided_{false};
};

}  // namespace farwrite::c_api
