/// @file
/// The C ABI: the version, and how a call reports failure.
#pragma once

#include <stddef.h>
#include <stdint.h>

/// Exports a function from libfarwrite.so.
#if defined(__GNUC__)
#define FW_API __attribute__((visibility("default")))
#else
#define FW_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/// The version of this ABI. Every change except an added function raises it.
#define FW_ABI_VERSION 5
#define FW_NAME_BYTES 320          ///< a host:port with its terminating zero
#define FW_FOREVER (~UINT64_C(0))  ///< a timeout that never passes

typedef struct fw_status fw_status;  ///< an error; NULL is success; freed by fw_status_free()

/// The FW_ABI_VERSION that the library was built with. Compare it before any other call.
FW_API uint32_t fw_abi_version(void);
/// The library's version: "0.1.0".
FW_API const char* fw_version(void);

/// The number of a farwrite::StatusCode.
FW_API int fw_status_code(const fw_status* status);
/// The code's name as errors show it: "kPeerDead".
FW_API const char* fw_status_code_name(const fw_status* status);
/// The error sentence.
FW_API const char* fw_status_message(const fw_status* status);
/// Frees a status. NULL is allowed.
FW_API void fw_status_free(fw_status* status);

#ifdef __cplusplus
}
#endif
