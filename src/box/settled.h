// The ends of operations whose memory is to be used again.
#pragma once

#include <memory>

#include "core/completion.h"
#include "core/deadline.h"
#include "device/channel.h"
#include "farwrite/status.h"

namespace farwrite::box {

// Waits until no more bytes move for the operation, and returns its outcome. A completion that is
// only done may still have a transfer under way into its destination. Waits without a limit for a
// peer that was stopped, so it is for memory of the caller alone.
Status wait_until_settled(const Completion& completion);
// Waits until the operation is done, which the end of its channel makes it, or until `deadline`:
// kDeadlineExceeded then, an error that names the peer of `channel`. The memory's `owner`, if
// it is not null, lives until no more bytes move.
Status wait_until_done(const Completion& completion, const core::Deadline& deadline,
                       std::shared_ptr<const void> owner, const Channel& channel);

}  // namespace farwrite::box
