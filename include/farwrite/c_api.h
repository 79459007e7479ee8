/// @file
/// The C ABI of libfarwrite.so, for code that another compiler builds: the TensorFlow plug-in.
///
/// The header is plain C and holds only what such a plug-in needs. C++ programs use farwrite.h.
///   - A function that can fail returns a fw_status. NULL is success. The caller frees any other
///     status with fw_status_free(). Out-parameters are written only on success.
///   - Handles are thread-safe. The caller owns them, and closes or releases each one once.
///   - A call that gets NULL for a handle, for an out-parameter, for a callback or a text that it
///     needs, or for bytes of a size above 0, fails with kInvalidArgument. A function without a
///     status then does nothing and returns 0, NULL or "". NULL may be closed, released and freed.
///   - Callbacks run on a thread of the device, one at a time for one lane. They must not block.
///   - Strings are UTF-8. Times are in nanoseconds, sizes in bytes.
///
/// Each struct begins with its size, so that later versions can add fields at the end. The caller
/// sets `struct_size` to sizeof(the struct) in every struct that it passes, including a struct that
/// a function fills. A function writes no byte past that size. The library sets `struct_size` in
/// every struct that it passes to a callback.
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
#define FW_ABI_VERSION 4
#define FW_NAME_BYTES 320  ///< a host:port with its terminating zero

typedef struct fw_status fw_status;    ///< an error; NULL is success; freed by fw_status_free()
typedef struct fw_device fw_device;    ///< a device; freed by fw_device_close()
typedef struct fw_channel fw_channel;  ///< a link to a peer; freed by fw_channel_close()
typedef struct fw_view fw_view;        ///< memory that a peer lent; freed by fw_view_release()
typedef struct fw_region fw_region;  ///< memory that a peer may write; freed by fw_region_release()
typedef struct fw_target fw_target;  ///< the peer's region; freed by fw_target_release()
typedef struct fw_landed fw_landed;  ///< a tensor that a peer wrote; freed by fw_landed_release()

/// The FW_ABI_VERSION that the library was built with. Compare it before any other call.
FW_API uint32_t fw_abi_version(void);
/// The library's version: "0.1.0".
FW_API const char* fw_version(void);

// --- Status.

/// The number of a farwrite::StatusCode.
FW_API int fw_status_code(const fw_status* status);
/// The code's name as errors show it: "kPeerDead".
FW_API const char* fw_status_code_name(const fw_status* status);
/// The error sentence.
FW_API const char* fw_status_message(const fw_status* status);
/// Frees a status. NULL is allowed.
FW_API void fw_status_free(fw_status* status);

// --- Options.

/// Reads an option of the TensorFlow plug-in from its variable in the environment. The option is a
/// switch or one of several words (docs/reference/options.md).
/// @param value set to the word, or to "on" or "off": to the default if the variable is not set or
/// is empty. The text is static.
/// @return kInvalidArgument names a variable with another text, and the words that it may have.
FW_API fw_status* fw_read_option(const char* variable, const char** value);

// --- Device.

/// Options of a device. Zero or NULL selects the default of farwrite::DeviceOptions.
typedef struct fw_device_options {
  size_t struct_size;   ///< sizeof(fw_device_options)
  const char* listen;   ///< host:port; port 0 selects a free port
  const char* fabrics;  ///< "shm,verbs,tcp", best first; a single entry forces that fabric
  const char* token;    ///< shared secret; NULL: this user's cookie, see farwrite::Token; "": none
  uint64_t send_limit;  ///< memory that peers may read or map, all peers together
  uint64_t send_limit_per_peer;     ///< memory that may be leased to one peer
  uint64_t segment_bytes;           ///< size of a segment of send memory
  uint64_t spin_ns;                 ///< how long a waiting thread polls before it blocks
  uint32_t pollers;                 ///< number of poller threads
  uint32_t lanes;                   ///< lanes per peer
  uint32_t data_port;               ///< port of the tcp fabric, for firewalls
  uint32_t encrypt;                 ///< 1: encrypt what leaves the host; requires the token
  uint64_t receive_limit;           ///< memory that peers may write, all peers together
  uint64_t receive_limit_per_peer;  ///< memory that one peer may write
  const char* verbs;  ///< settings of farwrite::VerbsOptions: "device=mlx5_0,gid_index=3"
  const char* name;   ///< name of this device in its peers' messages, beside its endpoint
  /// 1: if token is NULL, peers need the cookie on the loopback and nothing at other addresses.
  uint32_t open_elsewhere;
  /// 1: the variables of the environment that docs/reference/options.md lists for the plug-in
  /// override the fields above.
  uint32_t environment;
  const char* port_range;  ///< "7000-7099": the ports that port 0 selects from; NULL: no range
} fw_device_options;

/// Identifies one start of one device.
typedef struct fw_identity {
  size_t struct_size;            ///< sizeof(fw_identity)
  uint8_t uuid[16];              ///< stays the same over restarts on the same endpoint and host
  uint64_t epoch;                ///< differs at every start of a device
  char endpoint[FW_NAME_BYTES];  ///< where the device listens
} fw_identity;

/// Accounting of a device's send memory, in bytes.
typedef struct fw_memory_stats {
  size_t struct_size;  ///< sizeof(fw_memory_stats)
  uint64_t limit;      ///< send_limit of the device
  uint64_t reserved;   ///< in segments, taken from the kernel
  uint64_t used;       ///< allocated
  uint64_t peak_used;  ///< highest `used` since the device was opened
  uint64_t segments;   ///< number of segments
  uint64_t held_back;  ///< freed, and not reused while a forked child may read it
} fw_memory_stats;

/// Opens a device.
FW_API fw_status* fw_device_open(const fw_device_options* options, fw_device** device);
/// Closes every channel, then the device, and frees the handle, even when it returns an error.
/// The one exception is a call inside a callback of the device: it returns kFailedPrecondition, and
/// the handle stays valid.
FW_API fw_status* fw_device_close(fw_device* device, uint64_t timeout_ns);
/// Fills `identity` with the identity of this device.
FW_API void fw_device_identity(const fw_device* device, fw_identity* identity);
/// Opens a channel to the device that listens at `endpoint` (host:port).
FW_API fw_status* fw_device_connect(fw_device* device, const char* endpoint, uint64_t timeout_ns,
                                    fw_channel** channel);
/// Waits for the next channel that a peer opens to this device.
/// @return kDeadlineExceeded after the timeout; kCancelled when the device is closed.
FW_API fw_status* fw_device_accept(fw_device* device, uint64_t timeout_ns, fw_channel** channel);

/// Allocates send memory without a region, for allocators: 64-byte aligned, contents undefined.
/// @return NULL when the limit is reached, or in a forked child.
FW_API void* fw_device_allocate(fw_device* device, uint64_t bytes);
/// Frees `memory`. It must come from fw_device_allocate() of this device, and no peer may hold a
/// lease on it.
FW_API void fw_device_deallocate(fw_device* device, void* memory);
/// Returns 1 if `memory` lies in this device's send memory, else 0. Lock-free.
FW_API int fw_device_contains(const fw_device* device, const void* memory);
/// Copies like memcpy, with the fastest copy kernel of this machine. Large copies bypass the
/// caches.
FW_API void fw_copy(void* destination, const void* source, uint64_t bytes);
/// Fills `stats` with the accounting of the send memory.
FW_API void fw_device_memory(const fw_device* device, fw_memory_stats* stats);
/// The number of times that this process has forked.
FW_API uint64_t fw_fork_stamp(void);
/// Returns 1 if this process has forked since `stamp`, and a child of that time may still live.
/// Such a child reads memory that this process had at the fork. That memory must not be reused.
/// @param stamp an earlier result of fw_fork_stamp()
FW_API int fw_forked_child_may_read(uint64_t stamp);
/// Writes the counters of the device and its channels in the Prometheus text exposition format.
/// It writes the part of the text that fits into `capacity` bytes, with a terminating zero.
/// @return The length of the whole text without the zero. If this is not below `capacity`, call
/// again with a larger buffer.
FW_API uint64_t fw_device_metrics(const fw_device* device, char* buffer, uint64_t capacity);

// --- Channel.

/// A message from the peer.
typedef struct fw_notification {
  size_t struct_size;      ///< set by the library
  uint32_t tag;            ///< the number that the sender chose
  uint32_t lane;           ///< the lane that it came on
  const void* message;     ///< valid during the callback
  uint64_t message_bytes;  ///< 0 for a notification without a message
  fw_view* lent;  ///< memory that the peer lent with the message, or NULL; the handler releases it
} fw_notification;

/// Receives one notification. `notification` is valid during the callback.
typedef void (*fw_handler)(void* context, const fw_notification* notification);
/// Reports the end of a channel. `reason` is valid during the callback.
/// @param closed_in_good_order 1: the peer closed the channel; 0: the peer's death is proven or the
/// channel is broken
typedef void (*fw_end_handler)(void* context, int closed_in_good_order, const char* reason);
/// Reports the end of a lease that fw_channel_lend() granted.
typedef void (*fw_returned)(void* context);

/// Fills `identity` with the identity of the peer.
FW_API void fw_channel_peer(const fw_channel* channel, fw_identity* identity);
/// The peer's name in messages: "/job:worker/task:1 (127.0.0.1:7777)", or the endpoint alone. Valid
/// as long as the handle.
FW_API const char* fw_channel_peer_name(const fw_channel* channel);
/// The name of the channel's fabric: "shm".
FW_API const char* fw_channel_fabric(const fw_channel* channel);
/// Why this fabric was chosen: one sentence, valid as long as the handle.
FW_API const char* fw_channel_fabric_reason(const fw_channel* channel);
/// The number of lanes: the smaller of the two sides' numbers.
FW_API uint32_t fw_channel_lanes(const fw_channel* channel);
/// The largest message that fw_channel_send() accepts.
FW_API uint64_t fw_channel_max_message_bytes(const fw_channel* channel);
/// Delivers every notification to `on_notification`, first the ones that are already queued.
/// `on_end` may be NULL. Otherwise it is called once, after the last notification. If the channel
/// has already ended, it is called immediately.
FW_API fw_status* fw_channel_serve(fw_channel* channel, fw_handler on_notification,
                                   fw_end_handler on_end, void* context);
/// Queues a message behind earlier ones of its lane. Never waits for the peer.
FW_API fw_status* fw_channel_send(fw_channel* channel, const void* message, uint64_t bytes,
                                  uint32_t tag, uint32_t lane);
/// Sends a message together with a lease on `memory_bytes` at `memory`, in this device's send
/// memory. The peer can then map or read these bytes without a request.
///
/// `returned` is called once, from any thread: when the peer has returned the lease, when its death
/// is proven, or when this device closes. It is never called if this call fails. Until then the
/// bytes must neither change nor be deallocated.
/// @return kResourceExhausted over send_limit_per_peer.
FW_API fw_status* fw_channel_lend(fw_channel* channel, const void* message, uint64_t bytes,
                                  const void* memory, uint64_t memory_bytes, fw_returned returned,
                                  void* context, uint32_t tag, uint32_t lane);
/// Stops serving, closes the channel as farwrite::Channel::close() does, and frees the handle, even
/// when it returns an error. No callback runs after this returns. Views stay valid.
///
/// After two errors the handle stays valid, and the caller must call again: kFailedPrecondition
/// (called from a callback of the channel), and kDeadlineExceeded (a callback, or another thread's
/// call, has not returned in time).
FW_API fw_status* fw_channel_close(fw_channel* channel, uint64_t timeout_ns);

// --- View: memory that a peer lent. It may outlive the channel, the device's handle and the peer.

/// The size of the view in bytes.
FW_API uint64_t fw_view_bytes(const fw_view* view);
/// Returns 1 if fw_view_map() returns without waiting for the peer.
FW_API int fw_view_ready(const fw_view* view);
/// Returns 1 if fw_view_map() can map the bytes: the fabric maps the peer's memory. If it returns
/// 0, use fw_view_read().
FW_API int fw_view_maps(const fw_view* view);
/// Reports the end of fw_view_read(). `error` is NULL on success.
typedef void (*fw_read_done)(void* context, const char* error);
/// Reads all bytes of the view into `destination` on `lane`.
///
/// `done` is called once, from any thread, possibly before this returns. Its `error` is NULL on
/// success, else the cause, a text that is valid during the callback. Until then the caller must
/// neither release the view nor free the destination, even when the peer has ended. `done` must not
/// block.
FW_API void fw_view_read(fw_view* view, void* destination, uint32_t lane, fw_read_done done,
                         void* context);
/// Maps the bytes read-only, without a copy. The first view of a segment may wait for the peer, for
/// `timeout_ns` at most: do not call this from a handler.
/// @return kUnsupported where the fabric cannot map; kDeadlineExceeded after the timeout, and a
/// later call goes on with the wait.
FW_API fw_status* fw_view_map(fw_view* view, uint64_t timeout_ns, const void** data,
                              uint64_t* bytes);
/// Returns the lease to the peer. Never blocks.
FW_API void fw_view_release(fw_view* view);

// --- Landing memory. The receiver owns it as a fw_region, and one peer writes it. That peer
// addresses the same memory as a fw_target.

/// Returns 1 if the fabric maps the peer's memory: lent memory is then used without a copy.
FW_API int fw_channel_maps(const fw_channel* channel);
/// Allocates memory that only this peer may write: 64-byte aligned, contents undefined.
FW_API fw_status* fw_channel_allocate(fw_channel* channel, uint64_t bytes, fw_region** region);
/// The region's first byte.
FW_API void* fw_region_data(const fw_region* region);
/// Writes the descriptor that the peer opens the region with, if `capacity` has room for it.
/// @return The length of the descriptor, at most 1024 bytes.
FW_API uint64_t fw_region_describe(const fw_region* region, void* buffer, uint64_t capacity);
/// Ends the peer's access, then frees the memory. While the channel is open, this may wait for the
/// peer: do not call it from a handler. The handle may outlive the channel, and then this does not
/// wait.
FW_API void fw_region_release(fw_region* region);

/// Opens a peer's region by its descriptor. May wait for the peer: do not call it from a handler.
FW_API fw_status* fw_channel_open(fw_channel* channel, const void* descriptor, uint64_t bytes,
                                  uint64_t timeout_ns, fw_target** target);
/// The size of the target in bytes.
FW_API uint64_t fw_target_bytes(const fw_target* target);
/// Releases the target. No write to it may be in flight.
FW_API void fw_target_release(fw_target* target);
/// Reports the end of fw_target_write(). `error` is NULL on success.
typedef void (*fw_write_done)(void* context, const char* error);
/// Writes two pieces in one operation, then notifies the peer. Never waits for the peer.
///
/// `head` (at most 512 bytes, reusable on return) lands at the target's start, and `source`
/// directly behind it. Then the peer's handler receives `tag`, and both pieces are visible.
/// `source` is any memory of this process.
///
/// `done` is called once, from any thread, possibly before this returns. Its `error` is NULL on
/// success, else the cause. Only then may `source` change and the target be released. `done` is
/// never called if this call fails. It must not block.
FW_API fw_status* fw_target_write(fw_target* target, const void* head, uint64_t head_bytes,
                                  const void* source, uint64_t source_bytes, uint32_t tag,
                                  uint32_t lane, fw_write_done done, void* context);

// --- Tensors: the engine that lets tensors land in slots.
//
// A slot is landing memory for one tensor of an edge. Its receiver opens it and grants it; the
// sender then writes head and tensor in one operation. The slot is granted again when the receiver
// has released the tensor. The caller names edges by keys of its choice, of at most 16384 bytes.

/// A tensor that has landed.
typedef struct fw_landing {
  size_t struct_size;          ///< set by the library
  const char* edge;            ///< the edge's key, not zero-terminated; valid during the callback
  uint64_t edge_bytes;         ///< length of the key
  const void* description;     ///< what fw_channel_push() was given; valid during the callback
  uint64_t description_bytes;  ///< length of the description
  void* data;         ///< 64-byte aligned memory of this process; valid until fw_landed_release()
  uint64_t bytes;     ///< size of the tensor
  fw_landed* landed;  ///< the handler releases it
} fw_landing;

/// What a channel with an engine calls.
typedef struct fw_tensor_handlers {
  size_t struct_size;     ///< sizeof(fw_tensor_handlers)
  fw_handler on_message;  ///< a message of fw_channel_send() or fw_channel_lend()
  fw_end_handler on_end;  ///< as for fw_channel_serve()
  /// A tensor has landed. `landing` is valid during the callback.
  void (*on_landing)(void* context, const fw_landing* landing);
  /// Counts a slot that was opened on demand (1), or could not be opened for want of memory (0).
  void (*on_slot)(int opened);
  /// Runs `work(work_context)` once, after `delay_ns`. Work without a delay may wait for the peer;
  /// other work does not. Called from any thread, even after on_end.
  void (*run_later)(uint64_t delay_ns, void (*work)(void* work_context), void* work_context);
} fw_tensor_handlers;

/// Serves the channel with an engine, instead of fw_channel_serve(). Tags of messages have 24 bits
/// then. A peer that breaks the engine's protocol loses the channel: `on_end` gives the reason. All
/// handlers are required.
FW_API fw_status* fw_channel_serve_tensors(fw_channel* channel, const fw_tensor_handlers* handlers,
                                           void* context);
/// Reports the end of a push. `error` is NULL on success.
typedef void (*fw_push_done)(void* context, const char* error);
/// Writes a tensor into a slot of the edge, if one is free, on `lane`. Never waits for the peer.
/// `source` is any memory of this process.
///
/// Sets `*pushed` to 0 if no slot is free or the description is too long for a slot: offer the
/// tensor then, by fw_channel_lend(). If it is 1, `done` is called once, from any thread, possibly
/// before this returns; only then may `source` change. `done` must not block. It is never called if
/// this call fails, and then nothing was written.
/// @param description at most 216 bytes for the receiver's on_landing
FW_API fw_status* fw_channel_push(fw_channel* channel, const char* edge, uint64_t edge_bytes,
                                  const void* description, uint64_t description_bytes,
                                  const void* source, uint64_t bytes, uint32_t lane,
                                  fw_push_done done, void* context, int* pushed);
/// Returns 1 if a slot for so many bytes of the edge is free now.
FW_API int fw_channel_has_slot(const fw_channel* channel, const char* edge, uint64_t edge_bytes,
                               uint64_t bytes);
/// Opens slots soon, since a tensor of so many bytes was offered on this edge for want of one, and
/// more will come. Never blocks.
FW_API void fw_channel_want_slots(fw_channel* channel, const char* edge, uint64_t edge_bytes,
                                  uint64_t bytes);
/// Releases a landed tensor: its slot is granted again. It may outlive the channel, the device's
/// handle and the peer. Never blocks.
FW_API void fw_landed_release(fw_landed* landed);

/// Slots of all channels with an engine, now.
typedef struct fw_slot_stats {
  size_t struct_size;  ///< sizeof(fw_slot_stats)
  uint64_t slots;      ///< number of slots
  uint64_t held;       ///< of these, slots with a tensor that is not released
  uint64_t bytes;      ///< room for tensors in all of them
} fw_slot_stats;
/// Fills `stats`.
FW_API void fw_slots(fw_slot_stats* stats);

#ifdef __cplusplus
}
#endif
