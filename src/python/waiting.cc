#include "python/waiting.h"

#include <cmath>
#include <string>

#include "python/errors.h"

namespace farwrite::python {

std::chrono::nanoseconds to_timeout(std::optional<double> seconds, const char* what) {
  if (!seconds.has_value()) return kForever;
  if (std::isnan(*seconds) || *seconds < 0) {
    raise(
        Status(StatusCode::kInvalidArgument,
               std::string(what) + " " + std::to_string(*seconds) +
                   " is not a length of time; give seconds >= 0, or None to wait without a limit"));
  }
  // Past a century there is no difference, and nanoseconds would overflow.
  constexpr double kCentury = 3.2e9;
  if (*seconds > kCentury) return kForever;
  return std::chrono::nanoseconds(static_cast<std::int64_t>(*seconds * 1e9));
}

bool in_main_thread() {
  static const unsigned long main_thread = nanobind::cast<unsigned long>(
      nanobind::module_::import_("threading").attr("main_thread")().attr("ident"));
  return PyThread_get_thread_ident() == main_thread;
}

}  // namespace farwrite::python
