/// @file
/// The C ABI: the log and the trace of this process. All functions are thread-safe, and work in a
/// forked child.
#pragma once

#include "farwrite/c_status.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Writes one line to the log, if `level` is enabled. Control characters become spaces.
/// @param level "error", "warning", "info" or "debug"
/// @param text `bytes` bytes, without a newline at the end; any bytes
/// @return kInvalidArgument for another level
FW_API fw_status* fw_log(const char* level, const char* text, uint64_t bytes);
/// The level in force: "off", "error", "warning", "info" or "debug". Valid until the process ends.
FW_API const char* fw_log_level(void);
/// Sets the level in place of FARWRITE_LOG.
/// @return kInvalidArgument for another level
FW_API fw_status* fw_set_log_level(const char* level);

/// Writes the events so far to the file of FARWRITE_TRACE, and replaces the file. No effect while
/// there is no trace, or if nothing was added since the last time.
/// @return kPermissionDenied if the file cannot be written
FW_API fw_status* fw_write_trace(void);
/// Writes the events so far as fw_write_trace() does, and ends the trace.
FW_API fw_status* fw_stop_trace(void);

#ifdef __cplusplus
}
#endif
