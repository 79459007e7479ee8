/// @file
/// The C ABI: operations on their way, as farwrite::Completion.
///
/// A call that posts an operation returns an error if the operation has failed in the call. It sets
/// its `completion` to NULL if the operation has ended well in the call, and to a handle if it has
/// not ended yet. Every function here takes NULL for an operation that has ended well.
#pragma once

#include "farwrite/c_status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fw_completion fw_completion;  ///< freed by fw_completion_free()

/// Reports the end of an operation, once. `status` is NULL on success, and valid during the
/// callback.
typedef void (*fw_done)(void* context, const fw_status* status);

/// Returns 1 if the operation has ended or was cancelled, else 0.
FW_API int fw_completion_done(const fw_completion* completion);
/// Returns 1 if no more bytes move for the operation, else 0: its memory may be reused. A cancelled
/// operation settles later than it is done.
FW_API int fw_completion_settled(const fw_completion* completion);
/// Blocks until the operation ends. kDeadlineExceeded ends only this wait.
/// @return the outcome of the operation
FW_API fw_status* fw_completion_wait(const fw_completion* completion, uint64_t timeout_ns);
/// Ends every wait with kCancelled. The memory of the operation must stay valid until it settles.
FW_API void fw_completion_cancel(fw_completion* completion);
/// Calls `done` once, when the operation has ended or was cancelled: in this call if it has, else
/// in the thread that ends it. `done` must not block. It is called even if the handle is freed
/// before.
FW_API fw_status* fw_completion_on_done(fw_completion* completion, fw_done done, void* context);
/// Calls `done` once, when the operation is settled: in this call if it is, else in the thread that
/// ends it. `done` must not block. It is called even if the handle is freed before.
FW_API fw_status* fw_completion_on_settled(fw_completion* completion, fw_done done, void* context);
/// Frees the handle. The operation goes on. NULL is allowed.
FW_API void fw_completion_free(fw_completion* completion);

#ifdef __cplusplus
}
#endif
