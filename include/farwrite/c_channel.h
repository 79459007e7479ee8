/// @file
/// The C ABI: channels, notifications and messages.
#pragma once

#include "farwrite/c_device.h"

#ifdef __cplusplus
extern "C" {
#endif

/// A message from the peer.
typedef struct fw_notification {
  size_t struct_size;      ///< set by the library
  uint32_t tag;            ///< the number that the sender chose
  uint32_t lane;           ///< the lane that it came on
  const void* message;     ///< valid during the callback
  uint64_t message_bytes;  ///< 0 for a notification without a message
  fw_remote* lent;         ///< memory that came with the message, or NULL; the handler releases it
} fw_notification;

/// Receives one notification. `notification` is valid during the callback.
typedef void (*fw_handler)(void* context, const fw_notification* notification);
/// Reports the end of a channel. `reason` is valid during the callback.
/// @param closed_in_good_order 1: the peer closed the channel; 0: the peer's death is proven or the
/// channel is broken
typedef void (*fw_end_handler)(void* context, int closed_in_good_order, const char* reason);
/// Reports the end of a lease that fw_channel_lend() granted.
typedef void (*fw_returned)(void* context);

/// What a channel's peer does, as farwrite::PeerState.
typedef enum fw_peer_state {
  FW_PEER_ALIVE = 0,   ///< sent something within the detection time
  FW_PEER_SILENT = 1,  ///< sent nothing for the detection time; it may come back
  FW_PEER_CLOSED = 2,  ///< the peer or this side closed the channel
  FW_PEER_DEAD = 3     ///< the peer's death is proven
} fw_peer_state;

// --- The peer.

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
/// What the peer serves: "box" for the server of a box, else "". Unverified.
FW_API const char* fw_channel_service(const fw_channel* channel);
/// Returns 1 if the traffic leaves the host and is encrypted.
FW_API int fw_channel_encrypted(const fw_channel* channel);
/// The peer's state now, a fw_peer_state; FW_PEER_CLOSED for NULL.
FW_API uint32_t fw_channel_state(const fw_channel* channel);
/// Returns 1 if the fabric maps the peer's memory: lent memory is then used without a copy.
FW_API int fw_channel_maps(const fw_channel* channel);

// --- Notifications and messages. They come to the handlers of fw_channel_serve(), or are taken one
// by one by fw_channel_take().

/// The largest message that fw_channel_send() accepts.
FW_API uint64_t fw_channel_max_message_bytes(const fw_channel* channel);
/// Delivers every notification to `on_notification`, first the ones that are already queued.
/// `on_end` may be NULL. Otherwise it is called once, after the last notification. If the channel
/// has already ended, it is called immediately.
FW_API fw_status* fw_channel_serve(fw_channel* channel, fw_handler on_notification,
                                   fw_end_handler on_end, void* context);
/// Takes the next notification, and passes it to `on_notification` in this thread. Polls for the
/// device's `spin_ns`, then blocks, for `timeout_ns` at most; 0 never blocks.
/// @param taken set to 1, or to 0 if nothing came in time
/// @return the error that ended the channel, once everything that had come was taken
FW_API fw_status* fw_channel_take(fw_channel* channel, uint64_t timeout_ns,
                                  fw_handler on_notification, void* context, int* taken);
/// For event loops: sets `descriptor` to one that is readable once a notification may have come or
/// the channel has ended. Wait on it between calls of fw_channel_take(), each wait behind
/// fw_channel_arm(). It belongs to the channel; do not read from it.
FW_API fw_status* fw_channel_descriptor(fw_channel* channel, int* descriptor);
/// Call it before each wait on the descriptor. Sets `armed` to 0 if something is there already.
/// One event loop only. Errors: kFailedPrecondition while a handler takes the notifications.
FW_API fw_status* fw_channel_arm(fw_channel* channel, int* armed);
/// Spares the peer the ring of the descriptor while this thread polls in a loop. Call
/// fw_channel_arm() at the end of the loop.
FW_API void fw_channel_disarm(fw_channel* channel);
/// Sends a notification without bytes, behind earlier ones of its lane. Never waits for the peer.
/// kInvalidArgument on a channel with the engine of c_slots.h.
FW_API fw_status* fw_channel_notify(fw_channel* channel, uint32_t tag, uint32_t lane);
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

// --- Memory and names.

/// Allocates memory that only this peer may write: 64-byte aligned, contents undefined.
/// @param kind NULL or "host"; "cuda:0": on that GPU, in multiples of 2 MiB
FW_API fw_status* fw_channel_allocate(fw_channel* channel, uint64_t bytes, const char* kind,
                                      fw_region** region);
/// Publishes the region to this peer under `name`, in place of an earlier one of that name. It
/// stays alive without its handle until the channel closes.
/// @param description NULL, or at most 1024 bytes for the peer's fw_remote_description()
FW_API fw_status* fw_channel_publish(fw_channel* channel, const char* name, const fw_region* region,
                                     const char* description);
/// Opens the region that the peer published under `name`, and waits until it is published. Do not
/// call this from a handler.
/// @return kNotFound if it was not published in time
FW_API fw_status* fw_channel_lookup(fw_channel* channel, const char* name, uint64_t timeout_ns,
                                    fw_remote** remote);
/// Opens a peer's region by its descriptor. May wait for the peer: do not call it from a handler.
FW_API fw_status* fw_channel_open(fw_channel* channel, const void* descriptor, uint64_t bytes,
                                  uint64_t timeout_ns, fw_remote** remote);
/// Makes every earlier write of this channel visible to the peer's CPU.
FW_API fw_status* fw_channel_flush(fw_channel* channel, fw_completion** completion);

/// Stops serving, closes the channel as farwrite::Channel::close() does, and frees the handle, even
/// when it returns an error. No callback runs after this returns, except that of a
/// fw_channel_take() in its own thread. Lent memory stays valid.
///
/// After two errors the handle stays valid, and the caller must call again: kFailedPrecondition
/// (called from a callback of the channel), and kDeadlineExceeded (a callback, or another thread's
/// call, has not returned in time).
FW_API fw_status* fw_channel_close(fw_channel* channel, uint64_t timeout_ns);

#ifdef __cplusplus
}
#endif
