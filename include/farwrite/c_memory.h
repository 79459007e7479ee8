/// @file
/// The C ABI: memory that peers reach (fw_region), a peer's memory (fw_remote), the user's memory
/// that adapters know (fw_registration), and bytes with what keeps them valid (fw_slice).
#pragma once

#include "farwrite/c_completion.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fw_region fw_region;  ///< memory that peers reach; freed by fw_region_release()
typedef struct fw_remote fw_remote;  ///< a peer's memory; freed by fw_remote_release()
/// Memory that adapters have registered; freed by fw_registration_release().
typedef struct fw_registration fw_registration;
typedef struct fw_channel fw_channel;  ///< a link to a peer; freed by fw_channel_release()
typedef struct fw_lease fw_lease;      ///< what keeps bytes valid; freed by fw_lease_release()

/// Bytes that a peer, a stream or a box hands out, or that a stream sends.
typedef struct fw_slice {
  const void* data;  ///< the first byte
  uint64_t bytes;    ///< their number
  /// What keeps the bytes valid: of received bytes, for the program to release; of bytes that are
  /// sent, made by fw_lease_make(), or NULL.
  fw_lease* lease;
} fw_slice;

/// How a peer may use memory, a number of farwrite::Access.
typedef enum fw_access {
  FW_READ_ONLY = 1,  ///< read or map it
  FW_WRITABLE = 2    ///< write it
} fw_access;

/// The most bytes of the head of fw_remote_write_notify().
#define FW_MAX_HEAD_BYTES 512
/// The most bytes of a descriptor.
#define FW_MAX_DESCRIPTOR_BYTES 1024

// --- Region: made by fw_device_region() or fw_channel_allocate().

/// The region's first byte, 64-byte aligned; on a GPU its device pointer.
FW_API void* fw_region_data(const fw_region* region);
/// The size of the region in bytes.
FW_API uint64_t fw_region_bytes(const fw_region* region);
/// The number of the GPU that has the region; -1 for the host's memory, and for NULL.
FW_API int fw_region_gpu(const fw_region* region);
/// How peers may use the region, a fw_access; 0 for NULL.
FW_API uint32_t fw_region_access(const fw_region* region);
/// Writes the descriptor that a peer opens the region with, if `capacity` has room for it.
/// @return The length of the descriptor, at most FW_MAX_DESCRIPTOR_BYTES.
FW_API uint64_t fw_region_describe(const fw_region* region, void* buffer, uint64_t capacity);
/// Ends the peers' access, as farwrite::MemoryRegion::close() does. The handle stays valid.
/// @return kPeerSilent if a peer that may write did not settle within the timeout: the memory is
/// not reused until it does.
FW_API fw_status* fw_region_close(fw_region* region, uint64_t timeout_ns);
/// Ends the peers' access, then frees the memory. While the channel is open, this may wait for the
/// peer: do not call it from a handler. The handle may outlive the channel, and then this does not
/// wait.
FW_API void fw_region_release(fw_region* region);

// --- Remote: opened by fw_channel_open() or fw_channel_lookup(), or lent with a message. It holds
// a lease: the owner does not reuse the memory before fw_remote_release(). It may outlive the
// channel, the device's handle and the peer.

/// The size of the memory in bytes.
FW_API uint64_t fw_remote_bytes(const fw_remote* remote);
/// What the owner published with the memory; "" without. Valid as long as the handle.
FW_API const char* fw_remote_description(const fw_remote* remote);
/// The number of the GPU that has the memory, as this process numbers them; -1 for the host's,
/// until the memory is mapped, over fabrics that do not map it, and for NULL.
FW_API int fw_remote_gpu(const fw_remote* remote);
/// How this side may use the memory, a fw_access; 0 for NULL.
FW_API uint32_t fw_remote_access(const fw_remote* remote);
/// Writes the memory's descriptor as fw_region_describe() does.
FW_API uint64_t fw_remote_describe(const fw_remote* remote, void* buffer, uint64_t capacity);
/// Returns 1 if the memory was opened or lent on this channel.
FW_API int fw_remote_is_of(const fw_remote* remote, const fw_channel* channel);
/// Returns 1 if fw_remote_map() returns without waiting for the peer.
FW_API int fw_remote_ready(const fw_remote* remote);
/// Returns 1 if fw_remote_map() can map the bytes: the fabric maps the peer's memory. If it returns
/// 0, use fw_remote_read().
FW_API int fw_remote_maps(const fw_remote* remote);
/// Maps all bytes read-only, without a copy. They stay valid until fw_remote_release(). The first
/// mapping of lent memory may wait for the peer, for `timeout_ns` at most: do not call this from a
/// handler.
/// @return kUnsupported where the fabric cannot map; kDeadlineExceeded after the timeout, and a
/// later call goes on with the wait.
FW_API fw_status* fw_remote_map(fw_remote* remote, uint64_t timeout_ns, const void** data,
                                uint64_t* bytes);
/// As fw_remote_map(), for `bytes` from `offset` on. Their lease may outlive the handle.
FW_API fw_status* fw_remote_view(fw_remote* remote, uint64_t offset, uint64_t bytes,
                                 uint64_t timeout_ns, fw_slice* slice);
/// Reads `bytes`, from `offset` on, into `destination` on `lane`. Until the operation is settled,
/// `destination` must stay valid, even when the peer has ended.
FW_API fw_status* fw_remote_read(fw_remote* remote, uint64_t offset, void* destination,
                                 uint64_t bytes, uint32_t lane, fw_completion** completion);
/// Writes `bytes` of `source`, which is any memory of this process, to `offset` on `lane`. Until
/// the operation is settled, `source` must stay valid and unchanged. fw_channel_flush() makes the
/// bytes visible to the peer.
FW_API fw_status* fw_remote_write(fw_remote* remote, uint64_t offset, const void* source,
                                  uint64_t bytes, uint32_t lane, fw_completion** completion);
/// Writes two pieces in one operation, then notifies the peer with `tag`. Never waits for the peer.
/// `head` (at most FW_MAX_HEAD_BYTES, reusable on return) lands at `offset`, and `source` directly
/// behind it. When the peer takes the notification, both pieces are visible to it.
FW_API fw_status* fw_remote_write_notify(fw_remote* remote, uint64_t offset, const void* head,
                                         uint64_t head_bytes, const void* source, uint64_t bytes,
                                         uint32_t tag, uint32_t lane, fw_completion** completion);
/// Returns the lease to the peer. No write may be in flight. Never blocks, but for a region that
/// was opened or looked up and is the last that keeps its channel open: see fw_channel_release().
FW_API void fw_remote_release(fw_remote* remote);

// --- Registration: made by fw_device_register().

/// Returns 1 if an adapter has registered the memory, 0 if no fabric of the device needs it.
FW_API int fw_registration_has_effect(const fw_registration* registration);
/// Ends the registration. Transfers in flight keep what they use.
FW_API void fw_registration_release(fw_registration* registration);

/// Makes what keeps the program's own bytes valid: `release(owner)` is called once, from any
/// thread, when the last user of the bytes lets go of them.
FW_API fw_status* fw_lease_make(fw_release release, void* owner, fw_lease** lease);
/// Maps a private view of `bytes` bytes that lie in shared memory, such as those of a lease:
/// `slice` may be written, and what is written reaches no other memory. A page that was not written
/// is the shared one, so the bytes at `data` must stay valid and unchanged until the view's lease
/// ends. Of other memory the view is a copy.
/// @return kResourceExhausted if the process may not map so much
FW_API fw_status* fw_private_view(const void* data, uint64_t bytes, fw_slice* slice);
/// Ends what keeps bytes valid. From any thread. NULL is allowed.
FW_API void fw_lease_release(fw_lease* lease);

#ifdef __cplusplus
}
#endif
