// The reason of a channel's end, which is made before it is known which operations it ends.
#pragma once

#include <string_view>

#include "farwrite/status.h"

namespace farwrite::core {

// What the sentence of such a reason calls the operation.
inline constexpr std::string_view kUseTheChannel = "use the channel";

// The same reason for `operation`: "write to 127.0.0.1:7777: the peer's process is gone; ...".
// Other statuses stay as they are.
Status end_of(std::string_view operation, Status reason);

}  // namespace farwrite::core
