// wait_until_settled(): the end of an operation whose memory is to be used again.
#pragma once

#include <memory>
#include <string_view>

#include "core/deadline.h"
#include "farwrite/completion.h"
#include "farwrite/status.h"

namespace farwrite::box {

// Waits until no more bytes move for the operation, and returns its outcome. A completion that is
// only done may still have a transfer under way into its destination.
Status wait_until_settled(const Completion& completion);
// The same until `deadline`: kDeadlineExceeded then. The memory's `owner` lives until no more bytes
// move. `peer` is for that error.
Status wait_until_settled(const Completion& completion, const core::Deadline& deadline,
                          std::shared_ptr<const void> owner, std::string_view peer);

}  // namespace farwrite::box
