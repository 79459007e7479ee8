#include "core/log.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

namespace farwrite::core {
namespace {

using Sink = std::function<void(LogLevel, std::string_view)>;

// Sinks form a list, newest first, from which none is ever taken: another thread may be inside an
// old one, and a lock to find out could be held for ever in a forked child.
struct InstalledSink {
  Sink sink;
  InstalledSink* older;
};

constexpr int kUnread = -1;

std::atomic<int> threshold{kUnread};
std::atomic<InstalledSink*> newest_sink{nullptr};

constexpr std::array<LogLevel, 5> kLevels = {LogLevel::kError, LogLevel::kWarning, LogLevel::kInfo,
                                             LogLevel::kDebug, LogLevel::kOff};

std::optional<LogLevel> parse_level(std::string_view name) {
  for (const LogLevel level : kLevels) {
    if (name == to_string(level)) return level;
  }
  return std::nullopt;
}

// Settles the threshold at the first use. Only the thread that wins the race warns.
int read_threshold() {
  const char* value = std::getenv("FARWRITE_LOG");
  const std::string_view name = value == nullptr ? std::string_view() : value;
  const std::optional<LogLevel> level = parse_level(name);
  int expected = kUnread;
  const int wanted = static_cast<int>(level.value_or(LogLevel::kWarning));
  if (!threshold.compare_exchange_strong(expected, wanted, std::memory_order_relaxed)) {
    return expected;
  }
  if (!level && !name.empty()) {
    log(LogLevel::kWarning,
        "FARWRITE_LOG=" + std::string(name) +
            " is not a log level; set it to error, warning, info, debug or off (using warning)");
  }
  return wanted;
}

void write_line(LogLevel level, std::string_view text) {
  std::string line = "farwrite[" + std::to_string(::getpid()) + "] ";
  line += to_string(level);
  line += ": ";
  line += text;
  for (char& c : line) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  line += '\n';
  // A short write is not continued: the rest would be a line of its own. stderr gone is no reason
  // to fail, and there is nowhere to say so.
  while (::write(STDERR_FILENO, line.data(), line.size()) < 0 && errno == EINTR) {
  }
}

}  // namespace

std::string_view to_string(LogLevel level) {
  switch (level) {
    case LogLevel::kOff:
      return "off";
    case LogLevel::kError:
      return "error";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kDebug:
      return "debug";
  }
  return "unknown";
}

bool log_enabled(LogLevel level) {
  int limit = threshold.load(std::memory_order_relaxed);
  if (limit == kUnread) [[unlikely]] {
    limit = read_threshold();
  }
  return level != LogLevel::kOff && static_cast<int>(level) <= limit;
}

void log(LogLevel level, std::string_view text) {
  if (!log_enabled(level)) return;
  const int saved_errno = errno;
  const InstalledSink* installed = newest_sink.load(std::memory_order_acquire);
  if (installed != nullptr && installed->sink) {
    installed->sink(level, text);
  } else {
    write_line(level, text);
  }
  errno = saved_errno;
}

void set_log_level(LogLevel level) {
  threshold.store(static_cast<int>(level), std::memory_order_relaxed);
}

Status set_log_level_by_name(std::string_view name) {
  const std::optional<LogLevel> level = parse_level(name);
  if (!level) {
    return Status::error(StatusCode::kInvalidArgument, {"set the log level"},
                         "\"" + std::string(name) + "\" is not a log level",
                         "use error, warning, info, debug or off");
  }
  set_log_level(*level);
  return Status();
}

Status check_log_variable() {
  const char* const name = std::getenv("FARWRITE_LOG");
  if (name == nullptr || *name == '\0' || parse_level(name)) return Status();
  return Status::error(StatusCode::kInvalidArgument, {"open a device"},
                       "FARWRITE_LOG=" + std::string(name) + " is not a log level",
                       "set it to error, warning, info, debug or off");
}

std::string_view log_level_name() {
  (void)log_enabled(LogLevel::kError);  // reads FARWRITE_LOG if nothing has
  return to_string(static_cast<LogLevel>(threshold.load(std::memory_order_relaxed)));
}

void set_log_sink(Sink sink) {
  auto* installed = new InstalledSink{std::move(sink), newest_sink.load(std::memory_order_relaxed)};
  while (!newest_sink.compare_exchange_weak(installed->older, installed, std::memory_order_release,
                                            std::memory_order_relaxed)) {
  }
}

}  // namespace farwrite::core
