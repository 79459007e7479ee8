// What the log says of a wait that takes long, so that a program which waits for ever is no riddle.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "core/deadline.h"

namespace farwrite::core {

// A shorter wait is not logged.
inline constexpr std::chrono::nanoseconds kLongWait = std::chrono::seconds(1);

// "1.5 s"
std::string in_seconds(std::chrono::nanoseconds time);

// Logs a warning: `line` ("still trying, for "), how long that may be, and what for. `cause` ends
// with what the user can do; where it says "in time", as the error of the wait does, the line says
// "yet". Once for each wait, kLongWait after its start.
void tell_long_wait(std::string line, Deadline deadline, std::string_view cause);

}  // namespace farwrite::core
