/// @file
/// The C ABI: byte streams over a channel, as farwrite::stream::Streams.
///
/// A stream is open on both sides before either writes or finishes it: bytes for a stream that is
/// not open end it. Once fw_streams_create() has taken the channel's notifications, the sides can
/// tell each other so by names: each publishes a region after it has opened its streams
/// (fw_channel_publish()), and looks that of the other side up before its first write. To end one,
/// both sides finish it and read its end, and only then close the channel.
#pragma once

#include "farwrite/c_channel.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fw_streams fw_streams;  ///< all streams of a channel; freed by fw_streams_release()
typedef struct fw_stream fw_stream;    ///< one end of a stream; freed by fw_stream_release()

/// Options of fw_streams_create(), as farwrite::stream::Options. Zero selects the default.
typedef struct fw_stream_options {
  size_t struct_size;       ///< sizeof(fw_stream_options)
  uint64_t lend_from;       ///< slices of at least this size are lent, in bytes
  uint64_t chunk;           ///< what is read at a time, in bytes
  uint64_t window;          ///< bytes of one stream that are lent at a time; both sides the same
  uint64_t message_window;  ///< bytes of one stream in messages, 64 more for each; as window
  uint64_t write_bound;     ///< a write is done when so many bytes still wait
  uint64_t held;            ///< received bytes that may stay in the peer's memory
  /// 1: the program delivers by fw_streams_poll(). The thread that maps or reads memory of the peer
  /// may also call `on_read`. It does not wake an event loop that waits on the descriptor.
  uint32_t polled;
  uint32_t exact;  ///< 1: every number above counts as it stands, also a 0
} fw_stream_options;

/// Counts of all streams of a channel, as farwrite::stream::Stats.
typedef struct fw_stream_stats {
  size_t struct_size;        ///< sizeof(fw_stream_stats)
  uint64_t messages;         ///< sent, that hold bytes of slices
  uint64_t message_bytes;    ///< sent in messages
  uint64_t lent;             ///< regions that were lent
  uint64_t lent_bytes;       ///< bytes of them
  uint64_t staged_bytes;     ///< of these, copied to where a peer can read them
  uint64_t aliased_bytes;    ///< received without a copy
  uint64_t read_bytes;       ///< received by a read from the peer's memory
  uint64_t held_back_bytes;  ///< of these, because `held` was reached
  uint64_t credits;          ///< messages that only returned credit
  uint64_t waits;            ///< times that a sender had bytes and had to wait for its peer
} fw_stream_stats;

/// Reports what a read took: bytes; the end of the stream (`count` is 0 and `status` is NULL); or
/// an error in `status`. The array is valid during the callback, its bytes until their leases are
/// released. It may read again.
typedef void (*fw_on_read)(void* context, const fw_status* status, const fw_slice* slices,
                           uint64_t count);

// --- All streams of a channel.

/// Takes the notifications of the channel over. The channel's handle stays the caller's, who closes
/// it; that ends the streams. kInvalidArgument on a channel with the engine of c_slots.h;
/// kAlreadyExists if the channel has streams, or an edge of tensors is open.
/// @param device the device of the channel
/// @param options NULL: the defaults
FW_API fw_status* fw_streams_create(fw_device* device, fw_channel* channel,
                                    const fw_stream_options* options, fw_streams** streams);
/// This side's end of the stream of that number. Both sides open it before either writes. A number
/// is used once.
FW_API fw_status* fw_streams_open(fw_streams* streams, uint64_t number, fw_stream** stream);
/// Measures the channel for about `time_ns`, and sets `lend_from` and `chunk` for streams that are
/// opened later. Waits for the peer, which needs streams on the channel: do not call this from a
/// callback. With `polled` another thread must poll meanwhile. kResourceExhausted if the device
/// cannot lend the 4 MiB that this measures with, kDeadlineExceeded if the peer does not answer
/// within 5 s.
FW_API fw_status* fw_streams_tune(fw_streams* streams, uint64_t time_ns);
/// With `polled`: delivers what has come, in this thread. Returns 1 if there was something. Never
/// blocks. Without `polled`: does nothing, and returns 0.
FW_API int fw_streams_poll(fw_streams* streams);
/// With `polled`: sets `descriptor` as fw_channel_descriptor() does. kFailedPrecondition without.
FW_API fw_status* fw_streams_descriptor(fw_streams* streams, int* descriptor);
/// Before each wait on the descriptor. Returns 0 if fw_streams_poll() has something to deliver;
/// 1 after the end as well, and without `polled`.
FW_API int fw_streams_arm(fw_streams* streams);
/// As fw_channel_disarm().
FW_API void fw_streams_disarm(fw_streams* streams);
/// Fills `options` with those in force.
FW_API void fw_streams_options(const fw_streams* streams, fw_stream_options* options);
/// Fills `stats`.
FW_API void fw_streams_stats(const fw_streams* streams, fw_stream_stats* stats);
/// Frees the handle, and ends the streams that are open on this side: their reads and writes fail
/// with kCancelled. The peer is told by the channel's close.
FW_API void fw_streams_release(fw_streams* streams);

// --- One end of a stream.

// A callback may release the stream. A stream that has ended, and a forked child, pass their error
// to the callback.

/// Sends slices behind all earlier ones. `done` is called once, perhaps in this call: when at most
/// `write_bound` bytes still wait here, so that it is time for the next write, or with the error
/// that ended the stream. If this call fails, `done` is not called.
///
/// The stream takes the leases of the slices over, even when this call fails; each lease is in one
/// slice only. It ends each one when
/// no byte of the slice is needed any more, which may be before `done` or long after it, and at the
/// latest in fw_device_close(); fw_device_deallocate() is allowed then. NULL for bytes that outlive
/// the stream.
FW_API fw_status* fw_stream_write(fw_stream* stream, const fw_slice* slices, uint64_t count,
                                  fw_done done, void* context);
/// Takes what has come; waits if nothing has. `on_read` is called once, perhaps in this call, on
/// any thread, and must not block. One read at a time: a second one gets kFailedPrecondition.
FW_API fw_status* fw_stream_read(fw_stream* stream, fw_on_read on_read, void* context);
/// Ends this direction behind the last write. `done` is called once the peer has taken all bytes.
FW_API fw_status* fw_stream_finish(fw_stream* stream, fw_done done, void* context);
/// Ends both directions at once. This side's reads and writes fail with `code` and `reason`, the
/// peer's with kUnavailable and `reason`. What was received and not read is dropped.
/// @param code a fw_code above 0; any other means kCancelled
/// @param reason the cause, or the whole sentence of an error, "OPERATION: CAUSE; REMEDY"; NULL or
/// "": a general cause
FW_API void fw_stream_abort(fw_stream* stream, int code, const char* reason);
/// Frees the handle: fw_stream_abort(), unless both directions were finished and read.
FW_API void fw_stream_release(fw_stream* stream);

#ifdef __cplusplus
}
#endif
