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
#define FW_ABI_VERSION 8
#define FW_NAME_BYTES 320          ///< a host:port with its terminating zero
#define FW_FOREVER (~UINT64_C(0))  ///< a timeout that never passes

/// What a status says: the numbers of farwrite::StatusCode.
typedef enum fw_code {
  FW_OK = 0,                         ///< success
  FW_ERROR_INVALID_ARGUMENT = 1,     ///< an argument that is invalid in every state
  FW_ERROR_NOT_FOUND = 2,            ///< no region, name or peer matches
  FW_ERROR_ALREADY_EXISTS = 3,       ///< the name or port is taken
  FW_ERROR_OUT_OF_RANGE = 4,         ///< offset + length leaves the region
  FW_ERROR_PERMISSION_DENIED = 5,    ///< the region's access rights, or another user's process
  FW_ERROR_UNAUTHENTICATED = 6,      ///< the shared token is missing or wrong
  FW_ERROR_RESOURCE_EXHAUSTED = 7,   ///< memory, a limit or descriptors are used up
  FW_ERROR_FAILED_PRECONDITION = 8,  ///< a valid call in the wrong state
  FW_ERROR_UNAVAILABLE = 9,          ///< the fabric or the peer is unavailable now
  FW_ERROR_DEADLINE_EXCEEDED = 10,   ///< the timeout passed; the operation may still be in flight
  FW_ERROR_CANCELLED = 11,           ///< the caller stopped waiting
  FW_ERROR_PEER_DEAD = 12,           ///< the peer's death is proven
  FW_ERROR_PEER_SILENT = 13,         ///< the peer does not answer; it may come back
  FW_ERROR_PEER_RESTARTED = 14,      ///< the descriptor belongs to an earlier start of that device
  FW_ERROR_VERSION_MISMATCH = 15,    ///< the two sides share no wire version
  FW_ERROR_PROTOCOL_ERROR = 16,      ///< the peer sent bytes that break the protocol
  FW_ERROR_FORKED = 17,              ///< a forked child used its parent's device
  FW_ERROR_UNSUPPORTED = 18,         ///< this fabric or machine does not support the operation
  FW_ERROR_INTERNAL = 19,            ///< a bug in Farwrite
  FW_ERROR_END_OF_STREAM = 20        ///< the sender closed the stream; everything was received
} fw_code;

typedef struct fw_status fw_status;  ///< an error; NULL is success; freed by fw_status_free()

/// Lets go of what a call was given: a context, or what keeps bytes valid.
typedef void (*fw_release)(void* owner);

/// The FW_ABI_VERSION that the library was built with. Compare it before any other call.
FW_API uint32_t fw_abi_version(void);
/// The library's version: "0.1.0". This call and the one above are the same in every version.
FW_API const char* fw_version(void);

/// Lets the calling thread end its own waits. While a call of this thread waits for an answer of a
/// peer or of a box (connect, lookup, open, and what a box's client asks for) or for an operation,
/// it calls `interrupted(context)` about every 100 ms. Once that returns nonzero, such waits of the
/// thread end as if their time were up, until it calls this function again. NULL, the default, asks
/// nothing. `interrupted` is not asked while it runs. It must not use the region or the segment of
/// the call, and closes of its channel and device are refused there. For languages whose signal
/// handlers run between two steps of a thread. Other waits do not ask: call them again and again,
/// with a short timeout.
FW_API void fw_set_interrupt(int (*interrupted)(void* context), void* context);

/// The code, a fw_code.
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
