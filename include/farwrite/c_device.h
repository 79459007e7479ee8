/// @file
/// The C ABI: devices and their memory.
#pragma once

#include "farwrite/c_memory.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fw_device fw_device;    ///< a device; freed by fw_device_close()
typedef struct fw_channel fw_channel;  ///< a link to a peer; freed by fw_channel_close()

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
/// Closes every channel, then the device, and frees the handle, even when it returns an error. The
/// handles of channels, regions and all that came from the device stay the caller's to free.
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

/// Allocates send memory without a region, for allocators: 64-byte aligned, contents undefined. It
/// can be lent; what a peer opens by name is made by fw_device_region().
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

// --- Memory of a device that peers open by name or descriptor.

/// Allocates memory that peers may read and only this process may write: 64-byte aligned, contents
/// undefined.
/// @param kind NULL or "host"; "cuda:0": on that GPU
FW_API fw_status* fw_device_region(fw_device* device, uint64_t bytes, const char* kind,
                                   fw_region** region);
/// Publishes the region to every peer under `name`, in place of an earlier one of that name.
/// @param description NULL, or at most 1024 bytes for the peer's fw_remote_description()
FW_API fw_status* fw_device_publish(fw_device* device, const char* name, const fw_region* region,
                                    const char* description);
/// Removes the name. Peers that have opened the region keep it.
FW_API fw_status* fw_device_unpublish(fw_device* device, const char* name);
/// Registers the user's memory with every fabric that needs it (verbs): transfers then need no
/// registration each time. Peers still cannot reach it. The memory must stay mapped until
/// fw_registration_release().
/// @param writable 0: the memory is only a source
FW_API fw_status* fw_device_register(fw_device* device, void* memory, uint64_t bytes, int writable,
                                     fw_registration** registration);

// --- GPUs, as farwrite::use_cuda() and its neighbours.

/// Opens the CUDA driver: local memory of transfers may lie on a GPU from then on.
FW_API fw_status* fw_use_cuda(void);
/// Sets `gpu` to the number of the GPU that has the memory at `address`, and to -1 for the host's.
FW_API fw_status* fw_gpu_of_memory(const void* address, int* gpu);
/// Copies between any two places of this process, by the GPU if either lies on one.
FW_API fw_status* fw_copy_memory(void* destination, const void* source, uint64_t bytes);
/// Waits for all work that was queued on `stream` (a CUstream as a number) of the GPU.
FW_API fw_status* fw_wait_for_stream(int gpu, uint64_t stream);

#ifdef __cplusplus
}
#endif
