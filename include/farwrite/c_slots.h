/// @file
/// The C ABI for frameworks: the engine that lets tensors land in slots, and the options of the
/// TensorFlow plug-in.
///
/// A slot is landing memory for one tensor of an edge. Its receiver opens it and grants it; the
/// sender then writes head and tensor in one operation. The slot is granted again when the receiver
/// has released the tensor. The caller names edges by keys of its choice, of at most 16384 bytes.
#pragma once

#include "farwrite/c_channel.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fw_landed fw_landed;  ///< a tensor that a peer wrote; freed by fw_landed_release()

/// Reads an option of the TensorFlow plug-in from its variable in the environment. The option is a
/// switch or one of several words (docs/reference/options.md).
/// @param value set to the word, or to "on" or "off": to the default if the variable is not set or
/// is empty. The text is static.
/// @return kInvalidArgument names a variable with another text, and the words that it may have.
FW_API fw_status* fw_read_option(const char* variable, const char** value);

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

/// Serves the channel with an engine, instead of fw_channel_serve(), and before named edges or
/// streams have it: of these four a channel has one. kAlreadyExists if it has streams or an open
/// edge. Tags of messages have 24 bits then. A peer
/// that breaks the engine's protocol loses the channel: `on_end` gives the reason. All handlers are
/// required.
FW_API fw_status* fw_channel_serve_tensors(fw_channel* channel, const fw_tensor_handlers* handlers,
                                           void* context);
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
                                  const void* source, uint64_t bytes, uint32_t lane, fw_done done,
                                  void* context, int* pushed);
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
