#include "core/long_wait.h"

#include <array>
#include <cstdio>
#include <string_view>

#include "core/log.h"

namespace farwrite::core {
namespace {

constexpr std::string_view kInTime = " in time";

}  // namespace

std::string in_seconds(std::chrono::nanoseconds time) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f s", std::chrono::duration<double>(time).count());
  return text.data();
}

void tell_long_wait(std::string line, Deadline deadline, std::string_view cause) {
  line += deadline.is_never() ? "ever" : "another " + in_seconds(deadline.remaining());
  line.append(": ").append(cause);
  const std::size_t late = line.find(kInTime);
  if (late != std::string::npos) line.replace(late, kInTime.size(), " yet");
  log(LogLevel::kWarning, line);
}

}  // namespace farwrite::core
