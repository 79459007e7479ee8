/// @file
/// The C ABI of libfarwrite.so: all that a program can do, for any compiler and any language.
///
///   - A function that can fail returns a fw_status. NULL is success. The caller frees any other
///     status with fw_status_free(). Out-parameters are written only on success.
///   - Handles are thread-safe. The caller owns them, and releases each one once, when no other
///     thread uses it. What can end before its handle goes has a function that ends it and leaves
///     the handle valid: fw_channel_close() is one. A callback may release the handle of the call
///     that runs it.
///   - A call that gets NULL for a handle, for an out-parameter, for a callback or a text that it
///     needs, or for bytes of a size above 0, fails with kInvalidArgument. A function without a
///     status then does nothing and returns 0, NULL or "". NULL may be closed, released and freed.
///   - Callbacks run on a thread of the device, one at a time for one lane. They must not block.
///   - Strings are UTF-8. Times are in nanoseconds, sizes in bytes.
///   - fw_channel_take() and fw_receiver_receive() say by their out-parameter that nothing came in
///     time: that is no error. Every other wait ends with kDeadlineExceeded, unless its header says
///     otherwise.
///   - In options, a number of 0 selects the default, unless `exact` is 1.
///   - A function that keeps a `context` calls `release(context)` once, from any thread, when it
///     calls its callback no more, even when it fails. `release` may be NULL.
///
/// Each struct whose first field is `struct_size` may get fields at its end in later versions. The
/// caller sets `struct_size` to sizeof(the struct) in every such struct that it passes, including a
/// struct that a function fills, but not in structs inside of it, which never grow. Options of a
/// size that no such struct can have, as of 0, are refused with kInvalidArgument, and those that
/// set fields of a later version with kUnsupported. A function writes no byte past that size: with
/// 0, nothing. The library sets `struct_size` in every struct that it passes to a callback.
#pragma once

#include "farwrite/c_about.h"
#include "farwrite/c_box.h"
#include "farwrite/c_channel.h"
#include "farwrite/c_completion.h"
#include "farwrite/c_device.h"
#include "farwrite/c_log.h"
#include "farwrite/c_memory.h"
#include "farwrite/c_options.h"
#include "farwrite/c_slots.h"
#include "farwrite/c_status.h"
#include "farwrite/c_stream.h"
#include "farwrite/c_tensor.h"
