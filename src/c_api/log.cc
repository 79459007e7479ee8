// The C ABI: the log and the trace.
#include "core/log.h"

#include <string>
#include <string_view>

#include "c_api/handles.h"
#include "core/trace.h"

using farwrite::Status;
using farwrite::StatusCode;
using farwrite::c_api::refuse_null;
using farwrite::c_api::to_c;
using farwrite::core::LogLevel;

fw_status* fw_log(const char* level, const char* text, uint64_t bytes) {
  constexpr const char* kOperation = "write to the log";
  if (fw_status* const refused = refuse_null(
          kOperation,
          {{"level", level != nullptr}, farwrite::c_api::bytes_at("text", text, bytes)})) {
    return refused;
  }
  for (const LogLevel each :
       {LogLevel::kError, LogLevel::kWarning, LogLevel::kInfo, LogLevel::kDebug}) {
    if (level != farwrite::core::to_string(each)) continue;
    farwrite::core::log(each, {text, bytes});
    return nullptr;
  }
  return to_c(Status::error(StatusCode::kInvalidArgument, {kOperation},
                            "\"" + std::string(level) + "\" is not a level",
                            "use error, warning, info or debug"));
}

const char* fw_log_level(void) { return farwrite::core::log_level_name().data(); }  // a literal

fw_status* fw_set_log_level(const char* level) {
  if (fw_status* const refused = refuse_null("set the log level", {{"level", level != nullptr}})) {
    return refused;
  }
  return to_c(farwrite::core::set_log_level_by_name(level));
}

fw_status* fw_write_trace(void) { return to_c(farwrite::core::write_trace()); }

fw_status* fw_stop_trace(void) { return to_c(farwrite::core::stop_trace()); }
