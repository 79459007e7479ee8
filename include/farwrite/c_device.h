/// @file
/// The C ABI: devices and their memory.
#pragma once

#include "farwrite/c_memory.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fw_device fw_device;  ///< a device; freed by fw_device_release()

/// How the verbs fabric uses the machine's adapters, as farwrite::VerbsOptions. Every field counts
/// as it stands, also a 0: set all of them, to the defaults of docs/reference/options.md.
typedef struct fw_verbs_options {
  size_t struct_size;         ///< sizeof(fw_verbs_options)
  const char* device;         ///< "mlx5_0"; NULL or "": any
  uint64_t chunk_bytes;       ///< the most bytes of one work request
  uint32_t port;              ///< 1, 2, ...; 0: any
  int32_t gid_index;          ///< index into the port's GID table; -1: any
  uint32_t send_queue_depth;  ///< work requests in flight on a lane
  uint32_t receive_credits;   ///< notifications and messages that a lane's peer may have sent
  uint32_t signal_every;      ///< every n-th work request is signalled
  uint32_t inline_bytes;      ///< writes up to this many bytes are sent inline
  uint32_t retry_count;       ///< of requests that are not acknowledged, 0 to 7
  uint32_t rnr_retry_count;   ///< of requests that found no posted receive, 0 to 7
  int32_t relaxed_ordering;   ///< 1: relaxed; 0: strict; -1: relaxed where that is sound
  uint32_t use_immediate;     ///< 0: notifications without immediate data
  uint32_t assume_in_order;   ///< 1: assume that the data of a write lands in order
  uint32_t reserved;          ///< 0
} fw_verbs_options;

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
  uint64_t token_bytes;    ///< length of `token`; 0: up to its zero
  uint64_t receive_segment_bytes;  ///< size of a segment of the memory that one peer may write
  uint64_t memory_idle_ns;         ///< after which unused memory goes back to the system
  uint64_t detection_ns;           ///< after which a peer that sends nothing is silent
  uint64_t handshake_ns;           ///< time limit of one connection's handshake
  uint64_t host_ns;                ///< without an acknowledgement, after which a host is down
  const fw_verbs_options* verbs_fields;  ///< NULL: the defaults, changed by `verbs`
  uint32_t huge_pages;                   ///< a number of farwrite::HugePages; only if `exact`
  uint32_t prefault;                     ///< 1: fault memory in at once; only if `exact`
  int32_t numa_node;  ///< a node, -1 or farwrite::kNodeOfAdapter; only if `exact`
  uint32_t exact;     ///< 1: every number above counts as it stands, also a 0: set all
} fw_device_options;

/// Identifies one start of one device.
typedef struct fw_identity {
  size_t struct_size;            ///< sizeof(fw_identity)
  uint8_t uuid[16];              ///< stays the same over restarts on the same endpoint and host
  uint64_t epoch;                ///< differs at every start of a device
  char endpoint[FW_NAME_BYTES];  ///< where the device listens
} fw_identity;

/// Accounting of a device's memory of one direction, in bytes.
typedef struct fw_memory_stats {
  size_t struct_size;  ///< sizeof(fw_memory_stats)
  uint64_t limit;      ///< send_limit or receive_limit of the device
  uint64_t reserved;   ///< in segments, taken from the kernel
  uint64_t used;       ///< allocated
  uint64_t peak_used;  ///< highest `used` since the device was opened
  uint64_t segments;   ///< number of segments
  uint64_t held_back;  ///< freed, and not reused while a forked child may read it
  uint64_t refusals;   ///< number of refused allocations
} fw_memory_stats;

/// Counts of a device and its channels, as farwrite::DeviceStats.
typedef struct fw_device_counts {
  size_t struct_size;             ///< sizeof(fw_device_counts)
  fw_memory_stats send;           ///< memory that peers may read
  fw_memory_stats receive;        ///< memory that peers may write
  uint64_t registrations;         ///< segments that were registered with a fabric
  uint64_t adapter_segments;      ///< adapters: registrations of segments
  uint64_t adapter_on_demand;     ///< adapters: registrations of the users' memory
  uint64_t adapter_live;          ///< adapters: registrations now
  uint64_t adapter_live_bytes;    ///< adapters: memory of these
  uint64_t adapter_nanoseconds;   ///< adapters: time spent in registering and deregistering
  uint64_t adapter_transfers;     ///< adapters: transfers whose local memory was looked up
  uint64_t adapter_registered;    ///< adapters: of those, transfers that registered it first
  uint64_t gpu_mappings;          ///< GPUs: times that memory was mapped
  uint64_t gpu_mapped_bytes;      ///< GPUs: memory that is mapped now
  uint64_t gpu_copies;            ///< GPUs: copies
  uint64_t gpu_copied_bytes;      ///< GPUs: bytes of these
  uint64_t gpu_staged_bytes;      ///< GPUs: of these, on their way through host memory
  uint64_t gpu_pins;              ///< GPUs: times that host memory was registered
  uint64_t gpu_pinned_bytes;      ///< GPUs: host memory that is registered now
  uint64_t channels_opened;       ///< by either side
  uint64_t channels_open;         ///< now
  uint64_t handshakes_refused;    ///< incoming connections that became no channel
  uint64_t leases_held_by_peers;  ///< now
  uint64_t quarantined_bytes;     ///< now
} fw_device_counts;

/// One way to copy memory, as farwrite::CopyKernel.
typedef struct fw_copy_kernel {
  size_t struct_size;  ///< sizeof(fw_copy_kernel)
  const char* name;    ///< valid until the process ends
  /// Keeps the promises of fw_copy(); to be called only if `supported`.
  void (*function)(void* destination, const void* source, size_t bytes);
  double probed_gb_s;  ///< of a cold copy to memory, 1e9 bytes/s; 0 without a probe
  uint32_t supported;  ///< 1: this CPU can run it
  uint32_t chosen;     ///< 1: fw_copy() uses it for large copies
} fw_copy_kernel;

/// Opens a device.
FW_API fw_status* fw_device_open(const fw_device_options* options, fw_device** device);
/// Closes every channel, then the device, as farwrite::Device::close() does. The handle stays
/// valid, as do those of channels, regions and all that came from the device.
FW_API fw_status* fw_device_close(fw_device* device, uint64_t timeout_ns);
/// Frees the handle. A device that is open closes in this call, as fw_device_close() does with a
/// second of time, unless the handle of a sender or of streams that were made with it is left:
/// then it closes with the last of those. What peers hold of its memory does not keep it open.
FW_API void fw_device_release(fw_device* device);
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
/// Returns 1 if all of `bytes` from `memory` on lie in one segment of this device's send memory, as
/// fw_channel_lend() demands. Lock-free.
FW_API int fw_device_contains_all(const fw_device* device, const void* memory, uint64_t bytes);
/// Copies like memcpy, with the fastest copy kernel of this machine. Large copies bypass the
/// caches.
FW_API void fw_copy(void* destination, const void* source, uint64_t bytes);
/// Calls `on_kernel` in this thread for each copy kernel of this build, in order of preference.
/// Runs the probe that chooses one, if none has run.
FW_API void fw_copy_kernels(void (*on_kernel)(void* context, const fw_copy_kernel* kernel),
                            void* context);
/// Fills `stats` with the accounting of the send memory.
FW_API void fw_device_memory(const fw_device* device, fw_memory_stats* stats);
/// Fills `stats` with the counts of the device and its channels.
FW_API void fw_device_stats(const fw_device* device, fw_device_counts* stats);
/// Writes a line for each peer, "127.0.0.1:7777: shm (same host ...)", as fw_device_metrics()
/// writes its text.
FW_API uint64_t fw_device_choices(const fw_device* device, char* buffer, uint64_t capacity);
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
