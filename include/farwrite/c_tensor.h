/// @file
/// The C ABI: tensors over named edges, as farwrite::TensorSender and farwrite::TensorReceiver.
///
/// The edges take every notification of their channel: do not serve it, or take its notifications.
/// A channel with the engine of c_slots.h has no named edges.
#pragma once

#include "farwrite/c_channel.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fw_receiver fw_receiver;  ///< receives tensors; freed by fw_receiver_release()
typedef struct fw_sender fw_sender;      ///< sends them; freed by fw_sender_release()
typedef struct fw_tensor fw_tensor;      ///< a received tensor; freed by fw_tensor_release()

/// The highest rank of a tensor.
#define FW_MAX_RANK 16

/// How much of a tensor is known before it is sent.
typedef enum fw_edge_kind {
  FW_EDGE_UNSET = 0,    ///< in options: FW_EDGE_DYNAMIC
  FW_EDGE_STATIC = 1,   ///< shape and dtype are known
  FW_EDGE_BOUNDED = 2,  ///< dtype and largest size are known
  FW_EDGE_DYNAMIC = 3   ///< neither is known
} fw_edge_kind;

/// The type and shape of a tensor. Farwrite compares them and never interprets them. This struct
/// never gets another field.
typedef struct fw_tensor_spec {
  const char* dtype;           ///< any text of at most 512 bytes, for example "<f4"; NULL is ""
  uint32_t item_bytes;         ///< size of one element
  uint32_t rank;               ///< number of dimensions; 0 is one element
  uint64_t dims[FW_MAX_RANK];  ///< size of each dimension, in elements
} fw_tensor_spec;

/// Options of fw_receiver_open(). Zero or NULL selects the default.
typedef struct fw_receiver_options {
  size_t struct_size;    ///< sizeof(fw_receiver_options)
  uint32_t kind;         ///< what this receiver knows of the tensors, a fw_edge_kind
  fw_tensor_spec spec;   ///< static: all of it; bounded: dtype and item_bytes, rank 0; else unused
  uint64_t max_bytes;    ///< bounded: the size of the largest tensor
  uint32_t slots;        ///< static, bounded: landing buffers, 1 to 1024; 0: 2
  uint32_t lane;         ///< the edge's lane
  uint32_t copy_offers;  ///< 1: read what is offered, even where it could be mapped
  /// How a landing is notified, a number of farwrite::NotificationLowering; 0: as the channel's
  /// notified writes.
  uint32_t lowering;
  /// Allocates the memory that an offer is read into, or copied to, 64-byte aligned: returns NULL
  /// if there is none, and fw_receiver_receive() then returns kResourceExhausted. The receiving
  /// thread calls it, also for offers behind the one that it returns. `spec` is valid during the
  /// call. NULL: memory of the heap.
  void* (*allocate)(void* context, const fw_tensor_spec* spec, uint64_t bytes, void** owner);
  /// Frees what `allocate` returned, once: when the tensor is released, or was not received. Called
  /// from any thread, even when the receiver is closed. Needed with `allocate`. Neither of them may
  /// call a sender or receiver.
  void (*deallocate)(void* context, void* memory, void* owner);
  void* context;      ///< of both; valid until the last call of `deallocate`
  uint32_t exact;     ///< 1: every number above counts as it stands, also a 0
  uint32_t reserved;  ///< 0
} fw_receiver_options;

/// How a tensor arrived.
typedef enum fw_arrival {
  FW_ARRIVAL_PUSHED = 0,   ///< written into a slot
  FW_ARRIVAL_ALIASED = 1,  ///< a view of the sender's memory
  FW_ARRIVAL_READ = 2,     ///< read into memory of this process
  FW_ARRIVAL_EAGER = 3     ///< came in the offer itself, and is in memory of this process
} fw_arrival;

/// A received tensor. All of it is valid until fw_tensor_release().
typedef struct fw_tensor_info {
  size_t struct_size;   ///< sizeof(fw_tensor_info)
  fw_tensor_spec spec;  ///< what the sender stated
  const void* data;     ///< the bytes, never NULL
  uint64_t bytes;       ///< size of the tensor
  uint64_t sequence;    ///< grows by one with every tensor that the sender sent
  uint32_t arrival;     ///< how it came, a fw_arrival
} fw_tensor_info;

/// Counts of one side, as farwrite::TensorStats.
typedef struct fw_tensor_stats {
  size_t struct_size;          ///< sizeof(fw_tensor_stats)
  uint64_t pushed;             ///< tensors written into slots
  uint64_t offered;            ///< tensors offered, for any reason
  uint64_t offers_no_slot;     ///< of these, because no slot was free
  uint64_t staged;             ///< tensors that the sender copied into memory that it can lend
  uint64_t aliased;            ///< offers that the receiver mapped
  uint64_t read;               ///< offers that the receiver read
  uint64_t allocations;        ///< blocks of memory allocated for a tensor
  uint64_t registrations;      ///< segments that the device registered meanwhile
  uint64_t requests;           ///< requests to the peer
  uint64_t dropped_stale;      ///< pushes from before a reset
  uint64_t dropped_malformed;  ///< pushes that did not match the announcement
  uint64_t dropped_offers;     ///< stale or malformed offers
  uint64_t dropped_unseen;     ///< arrived, and reset or close came before they were received
  uint64_t grants;             ///< grants of slots
  uint64_t revoked;            ///< unused grants that were taken back
  uint64_t slots_free;         ///< now
  uint64_t slots_granted;      ///< now
  uint64_t slots_landed;       ///< now
  uint64_t slots_viewed;       ///< now
  uint64_t eager;              ///< offers that had the tensor in them
} fw_tensor_stats;

// --- Receiver.

/// Opens the receiving end of the edge `name`. Does not wait for the sender. kInvalidArgument on a
/// channel with the engine of c_slots.h.
/// @param options NULL: a dynamic edge
FW_API fw_status* fw_receiver_open(fw_channel* channel, const char* name,
                                   const fw_receiver_options* options, fw_receiver** receiver);
/// Takes the next tensor, in the order of sending. Waits for `timeout_ns` at most; 0 waits only to
/// map memory of the peer for the first time.
/// @param tensor set to NULL if none came in time
/// @return kEndOfStream once the sender has closed and every tensor was taken; kCancelled if
/// another thread calls fw_receiver_close() meanwhile. Every other error as
/// farwrite::TensorReceiver::receive() has it.
FW_API fw_status* fw_receiver_receive(fw_receiver* receiver, uint64_t timeout_ns,
                                      fw_tensor** tensor);
/// Waits until fw_receiver_receive() can take a tensor, or fail, at once.
FW_API fw_status* fw_receiver_wait(fw_receiver* receiver, uint64_t timeout_ns);
/// Drops the tensors that have arrived and those in flight. Tensors that were received stay valid.
FW_API fw_status* fw_receiver_reset(fw_receiver* receiver);
/// Fills `stats`.
FW_API void fw_receiver_stats(const fw_receiver* receiver, fw_tensor_stats* stats);
/// Ends the edge, as farwrite::TensorReceiver::close() does. After NULL, no later byte lands.
/// Tensors that were received stay valid.
FW_API fw_status* fw_receiver_close(fw_receiver* receiver, uint64_t timeout_ns);
/// Frees the handle; closes a receiver that is open.
FW_API void fw_receiver_release(fw_receiver* receiver);

/// Fills `info`.
FW_API void fw_tensor_get(const fw_tensor* tensor, fw_tensor_info* info);
/// Releases a received tensor. It may outlive the receiver, the channel, the device's handle and
/// the peer.
FW_API void fw_tensor_release(fw_tensor* tensor);

// --- Sender.

/// Waits for the peer's receiver of that name. kInvalidArgument on a channel with the engine of
/// c_slots.h.
/// @param device the device of the channel
FW_API fw_status* fw_sender_open(fw_device* device, fw_channel* channel, const char* name,
                                 uint64_t timeout_ns, fw_sender** sender);
/// What the receiver announced: the kind, and in `spec` what it knows. `spec` is valid as long as
/// the handle. A fw_edge_kind; FW_EDGE_UNSET for NULL.
FW_API uint32_t fw_sender_announced(const fw_sender* sender, fw_tensor_spec* spec);
/// Sends one tensor, as farwrite::TensorSender::send() does: where no slot is free and no memory is
/// left to offer it, or the lane is full, waits for `timeout_ns` at most. The source may be reused
/// once the operation is settled. A callback of the operation must not call a sender or receiver.
FW_API fw_status* fw_sender_send(fw_sender* sender, const fw_tensor_spec* spec, const void* data,
                                 uint64_t bytes, uint64_t timeout_ns, fw_completion** completion);
/// Fills `stats`.
FW_API void fw_sender_stats(const fw_sender* sender, fw_tensor_stats* stats);
/// Ends the stream, and waits until the receiver has taken what was sent. After kDeadlineExceeded,
/// call again, or fw_sender_abandon().
FW_API fw_status* fw_sender_close(fw_sender* sender, uint64_t timeout_ns);
/// Ends the stream before its end, without waiting. The receiver gets kUnavailable instead of
/// kEndOfStream. No effect after fw_sender_close().
FW_API fw_status* fw_sender_abandon(fw_sender* sender);
/// Frees the handle; abandons a sender that is open.
FW_API void fw_sender_release(fw_sender* sender);

#ifdef __cplusplus
}
#endif
