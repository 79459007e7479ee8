/// @file
/// The C ABI: the options of a device, set one by one by their keyword. docs/reference/options.md
/// lists the keywords. Python's `metrics` has no keyword here: a C program serves the text of
/// fw_device_metrics() itself. A program that knows at compile time which options it sets fills
/// fw_device_options instead.
#pragma once

#include "farwrite/c_device.h"

#ifdef __cplusplus
extern "C" {
#endif

/// The options of a device; freed by fw_options_release(). Several threads may read it at the same
/// time. While one thread sets an option, no other may use it.
typedef struct fw_options fw_options;

/// Receives a text. It is valid during the callback, which may not throw an exception.
/// @param bytes its length; a zero follows
typedef void (*fw_text_handler)(void* context, const char* text, uint64_t bytes);

/// Makes options that all have their defaults.
FW_API fw_options* fw_options_make(void);
/// Frees the options. A device that was opened with them does not need them. NULL is allowed.
FW_API void fw_options_release(fw_options* options);
/// Sets the option of that keyword ("lanes", "verbs.port") to what `text` says, as the option's
/// variable of the environment would have it.
/// @return kNotFound if there is no such keyword. kInvalidArgument if the text is not valid: its
/// message is what is wrong with the text, to stand behind the option's name, as "is not a whole
/// number from 1 to 64". The option then keeps its value.
FW_API fw_status* fw_options_set(fw_options* options, const char* keyword, const char* text);
/// Sets the token to the secret of `bytes` bytes, which may be any. NULL and 0 bytes: no token, so
/// that every process that reaches the device may connect. The default is this user's cookie, see
/// farwrite::Token.
/// @return kInvalidArgument for an empty secret: `token` is not NULL, and `bytes` is 0
FW_API fw_status* fw_options_set_token(fw_options* options, const void* token, uint64_t bytes);
/// Passes the value of the option of that keyword to `on_text`, in this thread, as one JSON value:
/// a text, a number, true, false, null or a list of texts. Times are in seconds. The token is null.
/// @return kNotFound if there is no such keyword
FW_API fw_status* fw_options_value(const fw_options* options, const char* keyword,
                                   fw_text_handler on_text, void* context);
/// Checks all options, and sets `fields` to them as fw_device_open(), fw_box_connect() and
/// fw_box_serve() take them. They are valid until an option is set, or the options are freed.
/// @return the error with which no device opens with these options
FW_API fw_status* fw_options_fields(const fw_options* options, const fw_device_options** fields);

#ifdef __cplusplus
}
#endif
