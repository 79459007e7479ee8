// Logging: lines on stderr, or into a sink.
//
// FARWRITE_LOG=error|warning|info|debug|off sets the threshold (default: warning); it is read at
// the first use, and another value is warned about. No device opens with it. A line is one
// write(2), so lines of several processes never mix:
//   farwrite[1234] warning: text
#pragma once

#include <functional>
#include <string_view>

#include "farwrite/status.h"

namespace farwrite::core {

// kOff is a threshold only: nothing is logged at that level.
enum class LogLevel : int { kOff = 0, kError = 1, kWarning = 2, kInfo = 3, kDebug = 4 };

// "warning"
std::string_view to_string(LogLevel level);

// Whether log() would write at this level. Cheap: ask before building a costly line.
bool log_enabled(LogLevel level);

// Writes one line, without a trailing newline in `text`; control characters become spaces, since
// part of the text may come from a peer. Thread-safe, takes no lock, keeps errno, and works in a
// forked child.
void log(LogLevel level, std::string_view text);

// Overrides FARWRITE_LOG.
void set_log_level(LogLevel level);
// The same by the level's name; kInvalidArgument if it is none.
Status set_log_level_by_name(std::string_view name);
// kInvalidArgument if FARWRITE_LOG is set to no level.
Status check_log_variable();
// The name of the level in force.
std::string_view log_level_name();

// Sends lines to `sink` instead of stderr; nullptr restores stderr. The sink is called by whichever
// thread logs, by several at once, and may still be running in another thread when it has been
// replaced. For that reason a sink is never destroyed: set one for the life of the process.
void set_log_sink(std::function<void(LogLevel, std::string_view)> sink);

}  // namespace farwrite::core
