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
/// Reports the end of a channel. `reason`, an error, is valid during the callback.
/// @param closed_in_good_order 1: the peer closed the channel; 0: the peer's death is proven or the
/// channel is broken
typedef void (*fw_end_handler)(void* context, int closed_in_good_order, const fw_status* reason);
/// Reports the end of a lease that fw_channel_lend() granted.
typedef void (*fw_returned)(void* context);

/// What a channel's peer does, as farwrite::PeerState.
typedef enum fw_peer_state {
  FW_PEER_ALIVE = 0,   ///< sent something within the detection time
  FW_PEER_SILENT = 1,  ///< sent nothing for the detection time; it may come back
  FW_PEER_CLOSED = 2,  ///< the peer or this side closed the channel
  FW_PEER_DEAD = 3     ///< the peer's death is proven
} fw_peer_state;

/// The peer of a channel, as farwrite::PeerInfo. The texts are valid as long as the handle.
typedef struct fw_peer_info {
  size_t struct_size;         ///< sizeof(fw_peer_info)
  fw_identity identity;       ///< which start of which device it is, and where it listens
  const char* name;           ///< the name that the peer gave itself, unverified; or ""
  const char* service;        ///< "box" for the server of a box, unverified; or ""
  const char* fabric;         ///< the name of the channel's fabric: "shm"
  const char* fabric_reason;  ///< why this fabric was chosen, one sentence
  uint32_t lanes;             ///< number of lanes
  uint32_t encrypted;         ///< 1: traffic that leaves the host is encrypted
} fw_peer_info;

/// Counts of a channel, as farwrite::ChannelStats.
typedef struct fw_channel_counts {
  size_t struct_size;               ///< sizeof(fw_channel_counts)
  uint64_t writes;                  ///< posted, with and without a notification
  uint64_t reads;                   ///< posted
  uint64_t aliases;                 ///< views of the peer's memory
  uint64_t bytes_written;           ///< of the posted writes
  uint64_t bytes_read;              ///< of the posted reads
  uint64_t bytes_aliased;           ///< of the views
  uint64_t copies;                  ///< passes over payload bytes by this process's CPU
  uint64_t notifications_sent;      ///< without a message
  uint64_t notifications_received;  ///< without a message
  uint64_t messages_sent;           ///< with a message
  uint64_t messages_received;       ///< with a message
  uint64_t backlogged;              ///< notifications that waited for ring space
  uint64_t doorbells;               ///< times that a sleeping peer had to be woken
  uint64_t leases_granted;          ///< to this peer
  uint64_t leases_released;         ///< by the peer, or by its proven death
  uint64_t leases_held;             ///< on the peer's memory, now
  uint64_t quarantined_bytes;       ///< now
  uint64_t silences;                ///< times that the peer became silent
} fw_channel_counts;

// --- The peer.

/// Fills `info` with what is known of the peer.
FW_API void fw_channel_peer_info(const fw_channel* channel, fw_peer_info* info);
/// Fills `stats`.
FW_API void fw_channel_stats(const fw_channel* channel, fw_channel_counts* stats);
/// The peer's name in messages: "/job:worker/task:1 (127.0.0.1:7777)", or the endpoint alone. Valid
/// as long as the handle.
FW_API const char* fw_channel_peer_name(const fw_channel* channel);
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
/// As the first half of fw_channel_serve(). NULL for `on_notification`: the queue again.
/// kDeadlineExceeded if the handler before has not returned within `timeout_ns`: it stays.
FW_API fw_status* fw_channel_on_notification(fw_channel* channel, fw_handler on_notification,
                                             void* context, fw_release release,
                                             uint64_t timeout_ns);
/// As the second half of fw_channel_serve(), in place of an earlier handler.
FW_API fw_status* fw_channel_on_end(fw_channel* channel, fw_end_handler on_end, void* context,
                                    fw_release release);
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
// Sending never waits for the peer. `completion` may be NULL here: what is queued then goes on by
// itself, and the channel's end tells if it could not.

/// Sends a notification without bytes, behind earlier ones of its lane. kInvalidArgument on a
/// channel with the engine of c_slots.h.
FW_API fw_status* fw_channel_notify(fw_channel* channel, uint32_t tag, uint32_t lane,
                                    fw_completion** completion);
/// Queues a message behind earlier ones of its lane.
FW_API fw_status* fw_channel_send(fw_channel* channel, const void* message, uint64_t bytes,
                                  uint32_t tag, uint32_t lane, fw_completion** completion);
/// Sends a message together with a lease on `memory_bytes` at `memory`, in this device's send
/// memory. The peer can then map or read these bytes without a request.
///
/// `returned` is called once, from any thread: when the peer has returned the lease, when its death
/// is proven, or when this device closes. It is never called if this call fails. Until then the
/// bytes must neither change nor be deallocated.
/// @return kResourceExhausted over send_limit_per_peer.
FW_API fw_status* fw_channel_lend(fw_channel* channel, const void* message, uint64_t bytes,
                                  const void* memory, uint64_t memory_bytes, fw_returned returned,
                                  void* context, uint32_t tag, uint32_t lane,
                                  fw_completion** completion);

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
/// Opens the region that the peer published under `name`, and waits until it is published. The peer
/// has 20 ms to answer, however short the time is. Do not call this from a handler.
/// @return kNotFound if it was not published in time
FW_API fw_status* fw_channel_lookup(fw_channel* channel, const char* name, uint64_t timeout_ns,
                                    fw_remote** remote);
/// Opens a peer's region by its descriptor. May wait for the peer: do not call it from a handler.
FW_API fw_status* fw_channel_open(fw_channel* channel, const void* descriptor, uint64_t bytes,
                                  uint64_t timeout_ns, fw_remote** remote);
/// Makes every earlier write of this channel visible to the peer's CPU.
FW_API fw_status* fw_channel_flush(fw_channel* channel, fw_completion** completion);

/// Stops serving, and closes the channel as farwrite::Channel::close() does. After NULL, no handler
/// of the channel runs, except that of a fw_channel_take() in its own thread. The callbacks of
/// leases and operations may still come: when they end, at the latest in fw_device_close(). Lent
/// memory stays valid. A second call is ok.
/// @return kFailedPrecondition in a callback of the channel; kDeadlineExceeded if a callback, or
/// another thread's call, has not returned in time: the channel is still closing, so call again
FW_API fw_status* fw_channel_close(fw_channel* channel, uint64_t timeout_ns);
/// Another handle of the same channel, for another part of the program: the channel closes with the
/// last one. Each is released once. What one handle sets for the channel, handlers, streams or an
/// engine, holds for all of them. NULL for NULL.
FW_API fw_channel* fw_channel_share(const fw_channel* channel);
/// Returns 1 if both are handles of one channel, 0 otherwise and for NULL.
FW_API int fw_channel_same(const fw_channel* channel, const fw_channel* other);
/// Frees the handle. A channel that is open closes in this call, which may take a second, unless
/// senders, receivers, streams or memory that was opened on it still use it. Lent memory, views and
/// regions do not keep it open.
FW_API void fw_channel_release(fw_channel* channel);

#ifdef __cplusplus
}
#endif
