/// @file
/// The C ABI: the parameter box, as farwrite::box. What a call does, and when it fails, is written
/// in farwrite/box.h; here are shapes, ownership and threads.
#pragma once

#include "farwrite/c_channel.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fw_box_server fw_box_server;  ///< freed by fw_box_server_release()
typedef struct fw_box_client fw_box_client;  ///< freed by fw_box_client_release()
typedef struct fw_segment fw_segment;        ///< freed by fw_segment_release()

/// The type of a segment's elements, a number of farwrite::box::ElementType.
typedef enum fw_element {
  FW_BYTES = 0,     ///< bytes without arithmetic
  FW_FLOAT64 = 1,   ///< IEEE binary64
  FW_FLOAT32 = 2,   ///< IEEE binary32
  FW_FLOAT16 = 3,   ///< IEEE binary16
  FW_BFLOAT16 = 4,  ///< the upper half of a binary32
  FW_INT32 = 5,     ///< two's complement
  FW_INT64 = 6      ///< two's complement
} fw_element;

/// The highest rank of a segment.
#define FW_MAX_SEGMENT_RANK 16

/// What fw_box_create() makes.
typedef struct fw_segment_spec {
  size_t struct_size;                  ///< sizeof(fw_segment_spec)
  const char* name;                    ///< 1 to 255 bytes
  uint32_t type;                       ///< of every element, a fw_element
  uint32_t rank;                       ///< number of dimensions; 0 is one element
  uint64_t dims[FW_MAX_SEGMENT_RANK];  ///< in elements; one of 0 makes an event
  const char* description;             ///< any text; NULL is ""
  uint32_t buffers;                    ///< 2 to 64; 0: 4
  uint32_t temporary;                  ///< 1: freed when the last client has left
} fw_segment_spec;

/// Which contents a segment has. Two are the same only if both numbers are.
typedef struct fw_version_id {
  uint64_t epoch;    ///< never 0
  uint64_t version;  ///< the number of changes applied
} fw_version_id;

/// A segment, as the server describes it.
typedef struct fw_segment_info {
  size_t struct_size;  ///< sizeof(fw_segment_info)
  /// As it was created; valid as long as the segment's handle, or during the callback.
  const fw_segment_spec* spec;
  uint64_t key;       ///< identifies this segment for ever, also in another process
  uint64_t bytes;     ///< of all elements
  fw_version_id id;   ///< when the answer was made
  uint32_t attached;  ///< clients that have it attached
  uint32_t silent;    ///< of those, clients of which nothing came for the detection time
  uint64_t age_ns;    ///< since the last change, or since the segment was made
} fw_segment_info;

/// A number that elements are multiplied by or set to, kept exactly.
typedef struct fw_factor {
  uint32_t is_whole;  ///< 1: `whole` is the number; 0: `real` is
  int64_t whole;      ///< two's complement
  double real;        ///< IEEE binary64
} fw_factor;

/// What a change does, a number of farwrite::box::Operation.
typedef enum fw_operation {
  FW_WRITE = 1,       ///< dst = x
  FW_ACCUMULATE = 2,  ///< dst += a * x
  FW_AXPY = 3,        ///< dst = a * x + y
  FW_SCALE = 4,       ///< dst *= a
  FW_FILL = 5,        ///< dst = a
  FW_SWAP = 6,        ///< dst and x exchange their contents
  FW_SIGNAL = 7       ///< nothing but a new version
} fw_operation;

/// The length of a change that reaches as far as it can.
#define FW_WHOLE (~UINT64_C(0))

/// One change of a segment, as farwrite::box::Change. Offsets and lengths are in bytes.
typedef struct fw_change {
  size_t struct_size;  ///< sizeof(fw_change)
  uint32_t operation;  ///< what to do, a fw_operation
  uint32_t new_epoch;  ///< 1: give the segment a new epoch
  uint64_t offset;     ///< into the destination
  /// Of the range; FW_WHOLE, or 0 unless `exact`: as long as `memory`, or else up to the end.
  uint64_t length;
  fw_factor factor;       ///< the a of the formulas: 0 in a struct of zeros
  const void* memory;     ///< x; valid until the operation is settled
  uint64_t memory_bytes;  ///< its size
  uint64_t x_key;         ///< x as a segment, instead of `memory`
  uint64_t x_offset;      ///< into that segment
  uint64_t y_key;         ///< y of FW_AXPY; of FW_WRITE the fence
  uint64_t y_offset;      ///< into that segment
  uint32_t exact;         ///< 1: a length of 0 is no bytes, and memory of no bytes may be NULL
  uint32_t reserved;      ///< 0
} fw_change;

/// How to read a segment, as farwrite::box::ReadOptions. Zero selects the default.
typedef struct fw_read_options {
  size_t struct_size;    ///< sizeof(fw_read_options)
  uint32_t by_chunk;     ///< 1: each MiB is whole, but not all of them together
  uint64_t min_version;  ///< wait until the segment has at least this version
  uint64_t epoch;        ///< wait no longer if it has another epoch; 0: any will do
  uint64_t timeout_ns;   ///< 0: no limit
  /// Called once with `owner`, from any thread, when no byte can arrive in the destination any
  /// more, even if the read fails. With it, kDeadlineExceeded also ends the wait for bytes that are
  /// under way, and the destination must not be read into again. NULL: such a wait lasts until the
  /// server goes on or is dead.
  fw_release release;
  void* owner;  ///< of `release`
} fw_read_options;

/// What a read returned.
typedef struct fw_read_result {
  size_t struct_size;  ///< sizeof(fw_read_result)
  fw_version_id id;    ///< of the bytes
  uint32_t retries;    ///< pieces that were read again
  uint32_t leased;     ///< 1: the server pinned a buffer for this read
} fw_read_result;

/// Counts of a client, over all its segments.
typedef struct fw_box_stats {
  size_t struct_size;     ///< sizeof(fw_box_stats)
  uint64_t reads;         ///< that returned bytes
  uint64_t read_retries;  ///< segments and pieces that were read again
  uint64_t leased_reads;  ///< reads for which the server pinned a buffer
  uint64_t changes;       ///< posted
  uint64_t staged_bytes;  ///< copied before they were lent, because of where they lay
  uint64_t leases;        ///< taken
} fw_box_stats;

/// Options of fw_box_serve(), as farwrite::box::ServerOptions. Zero or NULL selects the default.
typedef struct fw_box_options {
  size_t struct_size;               ///< sizeof(fw_box_options)
  const fw_device_options* device;  ///< where the server listens, its token and fabrics
  uint64_t memory;                  ///< for segments and changes on their way; 2 MiB or more
  uint64_t pool;                    ///< of it, taken before the first client comes
  uint32_t threads;                 ///< that share the arithmetic of one large change
  uint32_t restore;                 ///< 1: start with the newest whole snapshot
  const char* snapshot_directory;   ///< where snapshots are written; NULL or "" for none
  uint64_t snapshot_every_ns;       ///< 0: only fw_box_server_snapshot() writes them
  uint32_t exact;                   ///< 1: every number above counts as it stands, also a 0
  uint32_t reserved;                ///< 0
} fw_box_options;

/// Counts of a server, as farwrite::box::ServerStats.
typedef struct fw_box_server_counts {
  size_t struct_size;          ///< sizeof(fw_box_server_counts)
  uint64_t clients;            ///< connected now
  uint64_t segments;           ///< now
  uint64_t segment_bytes;      ///< of all buffers, now
  uint64_t changes;            ///< applied
  uint64_t bytes_changed;      ///< by those
  uint64_t refused;            ///< requests that ended with an error
  uint64_t switches;           ///< changes that filled another buffer and made it current
  uint64_t copies_for_leases;  ///< buffers copied, because a lease pinned the current one
  uint64_t leases;             ///< held now
  uint64_t leases_granted;     ///< since the start
  uint64_t snapshots;          ///< written
  uint64_t snapshot_failures;  ///< given up, the snapshot before them kept
} fw_box_server_counts;

/// Memory at the server that the next version of a segment is prepared in.
typedef struct fw_draft {
  uint64_t key;     ///< of the segment
  uint32_t buffer;  ///< internal
  void* data;       ///< contents undefined
  uint64_t bytes;   ///< as long as the segment
} fw_draft;

// --- Server.

/// Opens a device, restores a snapshot if asked to, and accepts clients from then on.
FW_API fw_status* fw_box_serve(const fw_box_options* options, fw_box_server** server);
/// Writes where clients connect: a host:port with its zero.
FW_API void fw_box_server_endpoint(const fw_box_server* server, char endpoint[FW_NAME_BYTES]);
/// A buffer for the next version of the segment, which this process fills. End it with
/// fw_box_server_commit() or fw_box_server_drop().
FW_API fw_status* fw_box_server_draft(fw_box_server* server, uint64_t key, fw_draft* draft);
/// Makes the draft current. `version` is set to what it became. This ends the draft, even when it
/// fails.
/// @param fence 0, or the key of a segment without which this fails with kNotFound
FW_API fw_status* fw_box_server_commit(fw_box_server* server, const fw_draft* draft, int new_epoch,
                                       uint64_t fence, uint64_t* version);
/// Gives the draft back unused.
FW_API void fw_box_server_drop(fw_box_server* server, const fw_draft* draft);
/// Writes a snapshot now.
FW_API fw_status* fw_box_server_snapshot(fw_box_server* server);
/// The server's counts and its device's, as fw_device_metrics() writes them.
FW_API uint64_t fw_box_server_metrics(const fw_box_server* server, char* buffer, uint64_t capacity);
/// Fills `stats`.
FW_API void fw_box_server_stats(const fw_box_server* server, fw_box_server_counts* stats);
/// Ends every connection, as farwrite::box::Server::close() does. After kFailedPrecondition the
/// server serves on: inside a callback, or `last_snapshot` without a directory.
FW_API fw_status* fw_box_server_close(fw_box_server* server, uint64_t timeout_ns,
                                      int last_snapshot);
/// Frees the handle; closes a server that is open.
FW_API void fw_box_server_release(fw_box_server* server);

// --- Client.

/// Opens a device and connects to the box at `endpoint`.
/// @param device NULL: the defaults
/// @param timeout_ns of connecting, and of calls that wait for the server; 0: 30 s
FW_API fw_status* fw_box_connect(const char* endpoint, const fw_device_options* device,
                                 uint64_t timeout_ns, fw_box_client** client);
/// Creates a segment filled with zeros, and attaches it.
/// @param open_or_create 1: attach it if a segment of that name, type and shape is there
FW_API fw_status* fw_box_create(fw_box_client* client, const fw_segment_spec* spec,
                                int open_or_create, fw_segment** segment);
/// Attaches the segment of that name; waits until another process creates it.
/// @return kDeadlineExceeded if none did in time; kNotFound if `timeout_ns` is 0
FW_API fw_status* fw_box_attach(fw_box_client* client, const char* name, uint64_t timeout_ns,
                                fw_segment** segment);
/// Attaches the segment of that key.
FW_API fw_status* fw_box_attach_key(fw_box_client* client, uint64_t key, fw_segment** segment);
/// Calls `on_info` in this thread for every segment of the box, or for the one named `name` alone.
/// The info is valid during the callback. A description of more than 256 bytes is left out, as "".
FW_API fw_status* fw_box_list(fw_box_client* client, const char* name,
                              void (*on_info)(void* context, const fw_segment_info* info),
                              void* context);
/// Memory that the server reads where it is: sources from it need no copy.
FW_API fw_status* fw_box_allocate(fw_box_client* client, uint64_t bytes, fw_region** region);
/// Fills `info` with what is known of the server and the fabric that reaches it.
FW_API void fw_box_server_info(const fw_box_client* client, fw_peer_info* info);
/// Fills `stats`.
FW_API void fw_box_client_stats(const fw_box_client* client, fw_box_stats* stats);
/// Ends the connection, as farwrite::box::Client::close() does. After kFailedPrecondition (inside a
/// callback) and kDeadlineExceeded, call again.
FW_API fw_status* fw_box_client_close(fw_box_client* client, uint64_t timeout_ns);
/// Frees the handle. A client that is open closes once its segments and their leases are released.
FW_API void fw_box_client_release(fw_box_client* client);

// --- Segment.

/// Fills `info` with the segment as it was when it was attached. Its texts are valid as long as the
/// handle.
FW_API void fw_segment_get(const fw_segment* segment, fw_segment_info* info);
/// Reads the epoch and the version from the server's memory.
FW_API fw_status* fw_segment_version(const fw_segment* segment, fw_version_id* id);
/// Writes the changes that each MiB has seen, as many as `capacity` has room for. `count` is set to
/// their number.
FW_API fw_status* fw_segment_chunk_versions(const fw_segment* segment, uint64_t* versions,
                                            uint64_t capacity, uint64_t* count);
/// Reads `bytes` from `offset` on. One-sided and never torn.
/// @param options NULL: the defaults
/// @param result NULL, or filled
FW_API fw_status* fw_segment_read(const fw_segment* segment, uint64_t offset, void* destination,
                                  uint64_t bytes, const fw_read_options* options,
                                  fw_read_result* result);
/// Posts one change. The server applies the changes of one client in the order of posting. The
/// completion is never NULL on success; see fw_segment_changed().
/// @param wait_ns how long to wait for the change: as fw_completion_wait(), and sooner back, since
///     this thread takes the server's answer itself. 0: not at all. A change that takes longer goes
///     on, and its completion is not done.
FW_API fw_status* fw_segment_post(fw_segment* segment, const fw_change* change, uint64_t wait_ns,
                                  fw_completion** completion);
/// Where the segment's version after a change is written before the change ends well. Valid as long
/// as the handle. NULL for other operations.
FW_API const uint64_t* fw_segment_changed(const fw_completion* completion);
/// Waits until the version is at least `version`, or, with an `epoch`, until that is another one.
/// @param id NULL, or set to what the segment has then
FW_API fw_status* fw_segment_wait(const fw_segment* segment, uint64_t version, uint64_t epoch,
                                  uint64_t timeout_ns, fw_version_id* id);
/// Calls `callback` once, when fw_segment_wait() would return, or with an error when that can no
/// longer be (then `id` is NULL). On any thread, perhaps in this call; it must not block. `wait` is
/// set to a number for fw_segment_cancel(). If this call fails, `callback` is never called. `wait`
/// must be valid until this returns, which may be after the callback.
FW_API fw_status* fw_segment_on_version(const fw_segment* segment, uint64_t version, uint64_t epoch,
                                        void (*callback)(void* context, const fw_status* status,
                                                         const fw_version_id* id),
                                        void* context, uint64_t* wait);
/// Gives up what fw_segment_on_version() waits for: its callback gets kCancelled in this call,
/// unless it runs or has run by then.
FW_API void fw_segment_cancel(const fw_segment* segment, uint64_t wait);
/// Returns kFailedPrecondition in a callback of the client, where nothing may wait for its server.
FW_API fw_status* fw_segment_check_wait(const fw_segment* segment);
/// Pins the newest version. The bytes stay as they are until fw_lease_release(), which may come
/// after the segment, the client and the server have ended.
FW_API fw_status* fw_segment_lease(const fw_segment* segment, uint64_t timeout_ns, fw_slice* slice,
                                   fw_version_id* id);
/// The bytes that are current now, without a copy. They change under the reader.
/// @param id NULL, or set to the version that they had
/// @return kUnsupported where the fabric cannot map the server's memory
FW_API fw_status* fw_segment_view(const fw_segment* segment, fw_slice* slice, fw_version_id* id);
/// Ends the attachment. Leases stay valid. Waits of fw_segment_on_version() end with an error in
/// this call, as in fw_box_client_close().
FW_API fw_status* fw_segment_detach(fw_segment* segment);
/// Frees the segment for every client.
FW_API fw_status* fw_segment_free(fw_segment* segment);
/// Frees the handle. A segment that is attached is detached once its leases are released. Callbacks
/// of fw_segment_on_version() must not release what is being released.
FW_API void fw_segment_release(fw_segment* segment);

/// destination += factor * source in this process, as farwrite::box::add_scaled().
/// @param type a fw_element
FW_API fw_status* fw_add_scaled(uint32_t type, void* destination, const void* source,
                                fw_factor factor, uint64_t elements);

#ifdef __cplusplus
}
#endif
