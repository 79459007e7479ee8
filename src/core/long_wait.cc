#include "core/long_wait.h"

#include <array>
#include <cstdio>

#include "core/log.h"

namespace farwrite::core {

std::string in_seconds(std::chrono::nanoseconds time) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f s", std::chrono::duration<double>(time).count());
  return text.data();
}

void tell_long_wait(std::string line, Deadline deadline, std::string_view cause) {
  line += deadline.is_never() ? "ever" : "another " + in_seconds(deadline.remaining());
  log(LogLevel::kWarning, line + ": " + std::string(cause));
}

}  // namespace farwrite::core
