/* The C ABI of libfarwrite.so, for code that another compiler builds: the TensorFlow plug-in.
 *
 * Plain C. Only what such a plug-in needs; C++ programs use farwrite.h.
 *   - Functions that can fail return a fw_status: NULL is success, anything else is freed with
 *     fw_status_free(). Out-parameters are written only on success.
 *   - Handles are thread-safe and owned by the caller, who closes or releases each once.
 *   - Callbacks run on a thread of the device, one at a time for one lane, and must not block.
 *   - Strings are UTF-8. Times are nanoseconds, sizes bytes. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define FW_API __attribute__((visibility("default")))
#else
#define FW_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Raised by every change that is not an added function. */
#define FW_ABI_VERSION 2
#define FW_NAME_BYTES 320 /* a host:port with its terminating zero */

typedef struct fw_status fw_status;
typedef struct fw_device fw_device;
typedef struct fw_channel fw_channel;
typedef struct fw_view fw_view;
typedef struct fw_region fw_region;
typedef struct fw_target fw_target;

/* The FW_ABI_VERSION this library was built with; compare before calling anything else. */
FW_API uint32_t fw_abi_version(void);
/* "0.1.0" */
FW_API const char* fw_version(void);

/* --- Status. The code is a number of farwrite::StatusCode, the name is as in errors: "kPeerDead".
 */
FW_API int fw_status_code(const fw_status* status);
FW_API const char* fw_status_code_name(const fw_status* status);
FW_API const char* fw_status_message(const fw_status* status);
FW_API void fw_status_free(fw_status* status); /* NULL is fine */

/* --- Structs. Each begins with its size, so that later versions can add fields at the end. The
 * caller sets it, to sizeof(the struct), in what it passes, also where a function fills the rest:
 * a function writes no byte behind it. The library sets it in what it passes to a callback. */

/* --- Device. Zero or NULL in an option takes DeviceOptions' default. */
typedef struct fw_device_options {
  size_t struct_size;
  const char* listen;  /* host:port; port 0 picks one */
  const char* fabrics; /* "shm,verbs,tcp", best first; one forces it */
  const char* token;   /* shared secret; NULL: this user's cookie, see Token; "": none */
  uint64_t send_limit; /* memory that peers may look at, in all */
  uint64_t send_limit_per_peer;
  uint64_t segment_bytes;
  uint64_t spin_ns;
  uint32_t pollers;
  uint32_t lanes;
  uint32_t data_port;     /* of the tcp fabric, for firewalls */
  uint32_t encrypt;       /* 1: what leaves the host; needs the token */
  uint64_t receive_limit; /* memory that peers may write, in all */
  uint64_t receive_limit_per_peer;
  const char* verbs; /* settings of VerbsOptions: "device=mlx5_0,gid_index=3" */
  const char* name;  /* what peers call this device in their messages, beside its endpoint */
  /* 1: if token is NULL, peers prove the cookie on the loopback and nothing at other addresses. */
  uint32_t open_elsewhere;
} fw_device_options;

typedef struct fw_identity {
  size_t struct_size;
  uint8_t uuid[16];
  uint64_t epoch;               /* differs at every start of a device */
  char endpoint[FW_NAME_BYTES]; /* where it listens */
} fw_identity;

typedef struct fw_memory_stats {
  size_t struct_size;
  uint64_t limit, reserved, used, peak_used, segments;
  uint64_t held_back; /* freed, and not used again while a forked child may read it */
} fw_memory_stats;

FW_API fw_status* fw_device_open(const fw_device_options* options, fw_device** device);
/* Closes every channel, then the device, and frees the handle, also when it returns an error. Only
 * a call inside one of the device's callbacks is refused: kFailedPrecondition, and the handle stays
 * as it was. */
FW_API fw_status* fw_device_close(fw_device* device, uint64_t timeout_ns);
FW_API void fw_device_identity(const fw_device* device, fw_identity* identity);
FW_API fw_status* fw_device_connect(fw_device* device, const char* endpoint, uint64_t timeout_ns,
                                    fw_channel** channel);
/* Waits for the next channel that a peer opens to us. kDeadlineExceeded, kCancelled when closed. */
FW_API fw_status* fw_device_accept(fw_device* device, uint64_t timeout_ns, fw_channel** channel);

/* Send memory without a region of its own, for allocators: 64-byte aligned, contents undefined.
 * NULL when the limit is reached or in a forked child. */
FW_API void* fw_device_allocate(fw_device* device, uint64_t bytes);
/* `memory` came from fw_device_allocate() of this device and no lease on it is out. */
FW_API void fw_device_deallocate(fw_device* device, void* memory);
/* Whether `memory` lies in this device's send memory. Lock-free. */
FW_API int fw_device_contains(const fw_device* device, const void* memory);
/* memcpy by this machine's fastest kernel; large copies leave the caches as they are. */
FW_API void fw_copy(void* destination, const void* source, uint64_t bytes);
FW_API void fw_device_memory(const fw_device* device, fw_memory_stats* stats);
/* How many times this process has forked, and whether a child that may live was forked since: it
 * reads memory that this process had then, so that must not hold something else. */
FW_API uint64_t fw_fork_stamp(void);
FW_API int fw_forked_child_may_read(uint64_t stamp);
/* The device's and its channels' counters, in the Prometheus text exposition format. Writes what
 * fits into `capacity` bytes with a terminating zero, and returns the length of the whole without
 * it: call again with room for more if it is not below `capacity`. */
FW_API uint64_t fw_device_metrics(const fw_device* device, char* buffer, uint64_t capacity);

/* --- Channel. */
typedef struct fw_notification {
  size_t struct_size;
  uint32_t tag, lane;
  const void* message; /* valid during the callback */
  uint64_t message_bytes;
  fw_view* lent; /* what the peer lent with the message, or NULL; the handler's to release */
} fw_notification;

typedef void (*fw_handler)(void* context, const fw_notification* notification);
/* `closed_in_good_order`: the peer said goodbye; otherwise its death is proven or the channel is
 * broken. `reason` is valid during the callback. */
typedef void (*fw_end_handler)(void* context, int closed_in_good_order, const char* reason);
typedef void (*fw_returned)(void* context);

FW_API void fw_channel_peer(const fw_channel* channel, fw_identity* identity);
/* How messages name the peer: "/job:worker/task:1 (127.0.0.1:7777)", or the endpoint alone. Valid
 * as long as the handle. */
FW_API const char* fw_channel_peer_name(const fw_channel* channel);
FW_API const char* fw_channel_fabric(const fw_channel* channel); /* "shm" */
/* Why this fabric: one sentence, valid as long as the handle. */
FW_API const char* fw_channel_fabric_reason(const fw_channel* channel);
FW_API uint32_t fw_channel_lanes(const fw_channel* channel); /* the smaller of both sides' */
FW_API uint64_t fw_channel_max_message_bytes(const fw_channel* channel);
/* Delivers every notification from now on, those that wait already first. `on_end`, if not NULL,
 * is called once, after the last notification; at once if the peer has gone already. */
FW_API fw_status* fw_channel_serve(fw_channel* channel, fw_handler on_notification,
                                   fw_end_handler on_end, void* context);
/* Queues a message behind earlier ones of its lane; never waits for the peer. */
FW_API fw_status* fw_channel_send(fw_channel* channel, const void* message, uint64_t bytes,
                                  uint32_t tag, uint32_t lane);
/* A message, and with it a lease on `memory_bytes` of this device's send memory at `memory`: the
 * peer looks at them without asking. `returned` is called once, from any thread, when the peer has
 * given the lease back, its death is proven, or this device closes; never if this call fails. Until
 * then the bytes must neither change nor be deallocated. kResourceExhausted over
 * send_limit_per_peer. */
FW_API fw_status* fw_channel_lend(fw_channel* channel, const void* message, uint64_t bytes,
                                  const void* memory, uint64_t memory_bytes, fw_returned returned,
                                  void* context, uint32_t tag, uint32_t lane);
/* Stops serving: neither callback runs after this returns. Then closes as Channel::close() and
 * frees the handle, also when it returns an error. Views stay valid. With two errors the handle
 * stays, and the call is to be repeated: kFailedPrecondition (called from a callback of the
 * channel) and kDeadlineExceeded (a callback, or another thread's call, has not returned in time).
 */
FW_API fw_status* fw_channel_close(fw_channel* channel, uint64_t timeout_ns);

/* --- View: memory that a peer lent. May outlive the channel, the device's handle and the peer. */

FW_API uint64_t fw_view_bytes(const fw_view* view);
/* Whether fw_view_map() answers at once. */
FW_API int fw_view_ready(const fw_view* view);
/* Whether fw_view_map() can show the bytes at all: the fabric maps the peer's memory. If it cannot,
 * read them. */
FW_API int fw_view_maps(const fw_view* view);
typedef void (*fw_read_done)(void* context, const char* error);
/* Fetches all bytes of the view into `destination` on `lane`. `done` is called once, from any
 * thread, maybe before this returns, with NULL for success or with why it failed, a text valid
 * during the callback. Until then neither the view may be released nor the destination freed: also
 * not when the peer has gone. It must not block. */
FW_API void fw_view_read(fw_view* view, void* destination, uint32_t lane, fw_read_done done,
                         void* context);
/* The bytes, read-only, no copy. The first view of a segment may wait for the peer, so not from a
 * handler. kUnsupported where the fabric cannot map. */
FW_API fw_status* fw_view_map(fw_view* view, const void** data, uint64_t* bytes);
/* Gives the lease back. Never blocks. */
FW_API void fw_view_release(fw_view* view);

/* --- Landing memory: the receiver's own, which one peer writes (fw_region), and the same memory as
 * that peer names it (fw_target). */

/* Whether the fabric maps the peer's memory: what it lends is looked at without a copy. */
FW_API int fw_channel_maps(const fw_channel* channel);
/* Memory that this peer, and nobody else, may write: 64-byte aligned, contents undefined. */
FW_API fw_status* fw_channel_allocate(fw_channel* channel, uint64_t bytes, fw_region** region);
FW_API void* fw_region_data(const fw_region* region);
/* What the peer opens the region by: writes its descriptor if `capacity` has room for it, and
 * returns its length, at most 1024 bytes. */
FW_API uint64_t fw_region_describe(const fw_region* region, void* buffer, uint64_t capacity);
/* Ends the peer's access, then frees the memory. May wait for the peer while its channel is open:
 * not from a handler. The handle may outlive the channel, and then it does not wait. */
FW_API void fw_region_release(fw_region* region);

/* Opens a peer's region by its descriptor. May wait for the peer: not from a handler. */
FW_API fw_status* fw_channel_open(fw_channel* channel, const void* descriptor, uint64_t bytes,
                                  uint64_t timeout_ns, fw_target** target);
FW_API uint64_t fw_target_bytes(const fw_target* target);
FW_API void fw_target_release(fw_target* target); /* no write to it is under way */
typedef void (*fw_write_done)(void* context, const char* error);
/* One write of two pieces: `head` (at most 512 bytes, free again on return) lands at the target's
 * start, `source` right behind it; then the peer's handler gets `tag`, and both are there. `source`
 * is any memory of this process. `done` is called once, from any thread, maybe before this returns,
 * with NULL or with why it failed: only then may `source` change and the target be released. Never
 * called if this call fails. It must not block. Never waits for the peer. */
FW_API fw_status* fw_target_write(fw_target* target, const void* head, uint64_t head_bytes,
                                  const void* source, uint64_t source_bytes, uint32_t tag,
                                  uint32_t lane, fw_write_done done, void* context);

#ifdef __cplusplus
}
#endif
