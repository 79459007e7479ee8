/// @file
/// Tensors over a channel: a sender pushes tensors, and a receiver gets views of the landed bytes.
///
/// An edge is a named stream of tensors from one TensorSender to one TensorReceiver. A channel
/// carries any number of edges, in both directions. The edges take every notification of their
/// channel, so do not send other notifications on it.
///
///   - kStatic:  shape and dtype are known in advance. One write per tensor, into memory that the
///               receiver has granted.
///   - kBounded: dtype and largest size are known. One write; the shape travels with the bytes.
///   - kDynamic: neither is known. The sender offers the tensor; the receiver maps the sender's
///               memory or reads it.
///
/// A sender that finds no free slot offers that tensor instead, and counts the offer. Offers take
/// send memory: when it is used up, send() waits for the receiver, up to a timeout. A slot is
/// granted again when the last copy of its ReceivedTensor is gone.
/// This layer starts no thread: a thread that waits in receive() or open() processes the
/// notifications for all users of the channel.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "farwrite/bytes.h"
#include "farwrite/channel.h"
#include "farwrite/completion.h"
#include "farwrite/device.h"
#include "farwrite/export.h"
#include "farwrite/status.h"

namespace farwrite {

namespace transfer {
class ReceiverState;
class SenderState;
class Received;
}  // namespace transfer

/// The longest TensorSpec::dtype, in bytes.
inline constexpr std::size_t kMaxDtypeBytes = 512;
/// The highest rank of a tensor.
inline constexpr std::size_t kMaxDimensions = 16;
/// The largest tensor, in bytes. A peer that announces a larger one breaks the protocol, and no
/// memory is allocated for it.
inline constexpr std::uint64_t kMaxTensorBytes = std::uint64_t{1} << 62;
inline constexpr std::uint32_t kMaxSlots = 1024;  ///< most slots of one edge

/// The type and shape of a tensor. Farwrite compares specs and never interprets them.
struct FARWRITE_API TensorSpec {
  std::string dtype;                ///< any text of at most kMaxDtypeBytes, for example `<f4`
  std::uint32_t item_bytes = 1;     ///< size of one element
  std::vector<std::uint64_t> dims;  ///< size of each dimension, in elements

  /// The tensor's size in bytes. A rank of 0 is one element; a dim of 0 is no element.
  /// kInvalidArgument for too many dimensions, a dtype that is too long, or a product that does not
  /// fit into 64 bits.
  Result<std::uint64_t> bytes() const;

  /// True if all three fields are equal.
  friend bool operator==(const TensorSpec& a, const TensorSpec& b) {
    return a.dtype == b.dtype && a.item_bytes == b.item_bytes && a.dims == b.dims;
  }
  /// True if a field differs.
  friend bool operator!=(const TensorSpec& a, const TensorSpec& b) { return !(a == b); }
};

/// How much of a tensor is known before it is sent. The numbers are part of the wire protocol:
/// never renumber.
enum class EdgeKind : std::uint8_t {
  kStatic = 1,   ///< shape and dtype are known
  kBounded = 2,  ///< dtype and largest size are known
  kDynamic = 3,  ///< neither is known
};

/// The name of the kind: "bounded".
FARWRITE_API std::string_view to_string(EdgeKind kind);

/// Memory for a tensor that has to be read: 64-byte aligned, of the requested size. `owner` keeps
/// the memory alive, and is destroyed with the last copy of the ReceivedTensor.
struct TensorMemory {
  std::byte* data = nullptr;    ///< the first byte
  std::shared_ptr<void> owner;  ///< frees the memory when it is destroyed
};

/// The options of TensorReceiver::open().
struct ReceiverOptions {
  EdgeKind kind = EdgeKind::kDynamic;  ///< what this receiver knows of the tensors
  TensorSpec spec;              ///< kStatic: all fields; kBounded: dtype, item_bytes; else ignored
  std::uint64_t max_bytes = 0;  ///< kBounded: size of the largest tensor
  std::uint32_t slots = 2;      ///< kStatic, kBounded: landing buffers, 1 to kMaxSlots
  std::uint32_t lane = 0;       ///< the edge's lane, in both directions
  /// Read offers into memory of this process, even where the peer's memory could be mapped.
  bool copy_offers = false;
  /// How the receiver is notified of a landing. Unset: as for the channel's notified writes.
  /// kTailFlag is used only if it is set here. It requires kStatic and a fabric that keeps the
  /// order within a write. A lowering that this channel does not support, or does not use, is an
  /// error that gives the reason.
  std::optional<NotificationLowering> lowering;
  /// Allocates the memory that offers are read into. Unset: memory of the C++ heap. The receiving
  /// thread calls it.
  std::function<Result<TensorMemory>(const TensorSpec& spec, std::uint64_t bytes)> allocator;
};

/// How a tensor arrived.
enum class Arrival : std::uint8_t {
  kPushed,   ///< written into a slot
  kAliased,  ///< offered, and mapped as a view of the sender's memory
  kRead,     ///< offered, and read into memory of this process
};

/// The name of the arrival: "pushed".
FARWRITE_API std::string_view to_string(Arrival arrival);

/// One received tensor. Copies share it. The last copy grants its slot again, or returns its lease.
/// It may outlive receiver, channel, device and peer. Thread-safe as a shared_ptr is.
class FARWRITE_API ReceivedTensor {
 public:
  ReceivedTensor() = default;
  /// @private Made by TensorReceiver::receive() and try_receive().
  explicit ReceivedTensor(std::shared_ptr<const transfer::Received> state)
      : state_(std::move(state)) {}

  /// False for a default-constructed handle. Such a handle allows no other call.
  bool valid() const { return state_ != nullptr; }
  /// The type and shape that the sender stated. Valid as long as this handle.
  const TensorSpec& spec() const;
  /// The tensor's bytes, 64-byte aligned. An aliased tensor has the alignment of the sender's
  /// memory. Never null, even when size() is 0.
  const std::byte* data() const;
  std::uint64_t size() const;  ///< bytes
  /// Grows by one with every tensor that the sender sent. A gap means that a tensor was dropped.
  std::uint64_t sequence() const;
  Arrival arrival() const;  ///< how the tensor arrived

 private:
  std::shared_ptr<const transfer::Received> state_;
};

/// Counts of one side since the edge was opened. A count that a side cannot determine stays 0.
struct TensorStats {
  std::uint64_t pushed = 0;             ///< tensors written into slots
  std::uint64_t offered = 0;            ///< tensors offered, for any reason
  std::uint64_t offers_no_slot = 0;     ///< of these, because no slot was free
  std::uint64_t staged = 0;             ///< tensors that the sender copied first, to offer them
  std::uint64_t aliased = 0;            ///< offers that the receiver mapped
  std::uint64_t read = 0;               ///< offers that the receiver read
  std::uint64_t allocations = 0;        ///< blocks of memory allocated for a tensor
  std::uint64_t registrations = 0;      ///< segments that the device registered meanwhile
  std::uint64_t requests = 0;           ///< requests to the peer: opened slots, reads
  std::uint64_t dropped_stale = 0;      ///< pushes from before reset(); their credit was returned
  std::uint64_t dropped_malformed = 0;  ///< pushes that did not match the announcement
  std::uint64_t dropped_offers = 0;     ///< stale or malformed offers
  std::uint64_t dropped_unseen = 0;     ///< arrived, and reset() or close() came before receive()
  /// Grants of slots. At the receiver grants == pushed + dropped_stale + dropped_malformed +
  /// revoked
  /// + slots_granted; at the sender grants == pushed + slots_granted.
  std::uint64_t grants = 0;
  std::uint64_t revoked = 0;        ///< unused grants that reset() or close() took back
  std::uint64_t slots_free = 0;     ///< free slots now
  std::uint64_t slots_granted = 0;  ///< granted slots now
  std::uint64_t slots_landed = 0;   ///< landed slots now
  std::uint64_t slots_viewed = 0;   ///< viewed slots now
};

/// The receiving end of an edge. Copies share the receiver. It closes when close() is called or the
/// last handle is gone. Thread-safe.
class FARWRITE_API TensorReceiver {
 public:
  /// Allocates the slots and announces the edge. Does not wait for the sender. kAlreadyExists while
  /// another receiver of this side has `name` (at most kMaxNameBytes) on this channel.
  static Result<TensorReceiver> open(const Channel& channel, std::string_view name,
                                     const ReceiverOptions& options);

  TensorReceiver() = default;
  /// @private Made by open().
  explicit TensorReceiver(std::shared_ptr<transfer::ReceiverState> state)
      : state_(std::move(state)) {}
  /// False for a default-constructed handle. Such a handle allows no other call.
  bool valid() const { return state_ != nullptr; }

  /// Takes the next tensor, in the order of sending. A silent peer does not end the wait.
  ///
  /// Errors: kDeadlineExceeded; kEndOfStream once the sender has closed and every tensor was taken;
  /// kUnavailable if the sender abandoned the stream, or tensors of it did not arrive; kCancelled
  /// if this receiver is closed; the channel's error if that ended first (kPeerDead: the peer died;
  /// kUnavailable: it closed the channel). Any other error concerns the next tensor, which stays
  /// the next one: an offer that cannot be mapped, or no memory to read it into. Call again, or
  /// drop it by reset(). Only kEndOfStream means that the stream is complete.
  Result<ReceivedTensor> receive(std::chrono::nanoseconds timeout = kForever);
  /// Waits until receive() can return a tensor or an error immediately. Takes no tensor.
  /// kDeadlineExceeded after the timeout.
  Status wait(std::chrono::nanoseconds timeout = kForever);
  /// Takes the next tensor if there is one. It may wait only to map a segment of the peer's memory
  /// for the first time.
  Result<std::optional<ReceivedTensor>> try_receive();

  /// Abort: drops the tensors that have arrived and those in flight, until the sender receives the
  /// reset. Later tensors arrive as usual. Views stay valid. Never blocks.
  Status reset();

  /// The counts of this side.
  TensorStats stats() const;
  /// Ends the edge. After it returns ok, no later byte lands. kPeerSilent as for
  /// MemoryRegion::close(). Views stay valid. A second close() is ok.
  Status close(std::chrono::nanoseconds timeout = std::chrono::seconds(1));

 private:
  std::shared_ptr<transfer::ReceiverState> state_;
};

/// The sending end of an edge. Copies share the sender. Only close() ends the stream normally:
/// a sender whose last handle goes before abandons it. Thread-safe. Tensors that several threads
/// send at the same time arrive in an unspecified order.
class FARWRITE_API TensorSender {
 public:
  /// Waits for the peer's receiver of that name, also for one that is opened again. After `timeout`
  /// kDeadlineExceeded, or kAlreadyExists if the edge has, or had, another sender.
  /// @param device the device that the channel belongs to
  static Result<TensorSender> open(const Device& device, const Channel& channel,
                                   std::string_view name,
                                   std::chrono::nanoseconds timeout = std::chrono::seconds(10));

  TensorSender() = default;
  /// @private Made by open().
  explicit TensorSender(std::shared_ptr<transfer::SenderState> state) : state_(std::move(state)) {}
  /// False for a default-constructed handle. Such a handle allows no other call.
  bool valid() const { return state_ != nullptr; }

  /// The kind that the receiver announced.
  EdgeKind kind() const;
  /// The spec that the receiver announced. For kBounded the dims are empty; for kDynamic every
  /// field is.
  const TensorSpec& announced() const;

  /// Sends one tensor. Where no slot is free and no memory is left to offer it, waits for one of
  /// them until `timeout`, and processes notifications meanwhile. After a second it logs which
  /// receiver it waits for. 0 fails immediately instead. Do not wait in a handler of a channel, or
  /// in the only thread that receives on the other side.
  ///
  /// The Completion is done when the source may be reused. For a push, this is immediately or soon.
  /// For an offer of the device's memory, it is when the receiver has dropped the tensor. Other
  /// memory is copied before it is offered. An offer in flight keeps the device open. A callback of
  /// the Completion must not call a sender or receiver.
  ///
  /// Errors: kInvalidArgument if `spec` does not match the edge or bytes.size; kDeadlineExceeded if
  /// the wait found neither a slot nor memory; kResourceExhausted without a wait, because `timeout`
  /// is 0, or because the receiver holds nothing that could come back and the tensor must be
  /// offered and send_limit_per_peer, or send_limit for the copy, is reached; kUnavailable once the
  /// receiver has closed.
  Completion send(const TensorSpec& spec, ByteView bytes,
                  std::chrono::nanoseconds timeout = std::chrono::seconds(10));

  /// The counts of this side, after processing the records that the receiver has sent.
  TensorStats stats() const;
  /// Ends the stream, and waits until the receiver has taken what was sent, or dropped it by
  /// reset(). After it returns ok, nothing more is needed of this side. A second close() is ok.
  ///
  /// Errors, all with the number of tensors that the receiver took: kDeadlineExceeded (the tensors
  /// stay available, and close() may be called again); kUnavailable if the receiver closed before
  /// it took everything; the channel's error at its end.
  Status close(std::chrono::nanoseconds timeout = std::chrono::seconds(10));
  /// Ends the stream before its end, without waiting. The receiver still gets what it can get, and
  /// then kUnavailable instead of kEndOfStream. No effect after close().
  Status abandon();

 private:
  std::shared_ptr<transfer::SenderState> state_;
};

}  // namespace farwrite
