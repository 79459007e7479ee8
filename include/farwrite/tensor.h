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

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "farwrite/bytes.h"
#include "farwrite/c_tensor.h"
#include "farwrite/channel.h"
#include "farwrite/completion.h"
#include "farwrite/device.h"
#include "farwrite/internal/bridge.h"
#include "farwrite/internal/namespace.h"
#include "farwrite/status.h"
#include "farwrite/tensor_types.h"
#include "farwrite/timeout.h"

FARWRITE_BEGIN

static_assert(kMaxDimensions == FW_MAX_RANK);

namespace internal {

/// @private
using TensorAllocator = std::function<Result<TensorMemory>(const TensorSpec&, std::uint64_t)>;

/// @private Valid as long as `spec`. The library refuses a rank that `dims` has no room for.
inline fw_tensor_spec to_c_spec(const TensorSpec& spec) {
  constexpr std::size_t kMost = std::numeric_limits<std::uint32_t>::max();
  fw_tensor_spec c = {};
  c.dtype = spec.dtype.c_str();
  c.item_bytes = spec.item_bytes;
  c.rank = static_cast<std::uint32_t>(std::min(spec.dims.size(), kMost));
  std::copy_n(spec.dims.data(), std::min<std::size_t>(spec.dims.size(), FW_MAX_RANK), c.dims);
  return c;
}

/// @private
inline TensorSpec to_spec(const fw_tensor_spec& known) {
  TensorSpec spec;
  if (known.dtype != nullptr) spec.dtype = known.dtype;
  spec.item_bytes = known.item_bytes;
  spec.dims.assign(known.dims, known.dims + std::min<std::uint32_t>(known.rank, FW_MAX_RANK));
  return spec;
}

/// @private
inline TensorStats to_tensor_stats(const fw_tensor_stats& known) {
  TensorStats stats;
  stats.pushed = known.pushed;
  stats.offered = known.offered;
  stats.offers_no_slot = known.offers_no_slot;
  stats.staged = known.staged;
  stats.aliased = known.aliased;
  stats.read = known.read;
  stats.eager = known.eager;
  stats.allocations = known.allocations;
  stats.registrations = known.registrations;
  stats.requests = known.requests;
  stats.dropped_stale = known.dropped_stale;
  stats.dropped_malformed = known.dropped_malformed;
  stats.dropped_offers = known.dropped_offers;
  stats.dropped_unseen = known.dropped_unseen;
  stats.grants = known.grants;
  stats.revoked = known.revoked;
  stats.slots_free = known.slots_free;
  stats.slots_granted = known.slots_granted;
  stats.slots_landed = known.slots_landed;
  stats.slots_viewed = known.slots_viewed;
  return stats;
}

/// @private Where this thread's receive() wants the error of an allocator; null outside of it. The
/// C ABI knows only that there was no memory.
inline Status*& allocator_error() {
  thread_local Status* wanted = nullptr;
  return wanted;
}

/// @private
inline void* allocate_tensor(void* context, const fw_tensor_spec* spec, std::uint64_t bytes,
                             void** owner) noexcept {
  Result<TensorMemory> memory =
      (*static_cast<const TensorAllocator*>(context))(to_spec(*spec), bytes);
  if (memory.ok() && memory->data != nullptr) {
    *owner = new std::shared_ptr<void>(std::move(memory->owner));
    return memory->data;
  }
  // Of the next tensor: a thread that takes one may read those behind it ahead.
  if (Status* const wanted = allocator_error(); wanted != nullptr && wanted->ok()) {
    *wanted = memory.ok() ? Status::error(StatusCode::kResourceExhausted, {"receive a tensor"},
                                          "the allocator returned no memory", "free some memory")
                          : memory.status();
  }
  return nullptr;
}

/// @private Does not touch the allocator, which may be gone: the owner frees the memory.
inline void deallocate_tensor(void* /*context*/, void* /*memory*/, void* owner) noexcept {
  delete static_cast<std::shared_ptr<void>*>(owner);
}

/// @private A received tensor, and what is known of it.
struct ArrivedTensor {
  explicit ArrivedTensor(Only<fw_tensor> tensor) : handle(std::move(tensor)) {
    fw_tensor_info info = {};
    info.struct_size = sizeof(info);
    fw_tensor_get(handle.get(), &info);
    spec = to_spec(info.spec);
    data = static_cast<const std::byte*>(info.data);
    bytes = info.bytes;
    sequence = info.sequence;
    arrival = static_cast<Arrival>(info.arrival);
  }

  const Only<fw_tensor> handle;
  TensorSpec spec;
  const std::byte* data = nullptr;
  std::uint64_t bytes = 0;
  std::uint64_t sequence = 0;
  Arrival arrival = Arrival::kPushed;
};

/// @private A receiver, and what its errors name.
struct OpenReceiver {
  TensorAllocator allocator;  // before the handle, which calls it
  std::string name;
  std::string peer_name;
  Only<fw_receiver> handle{nullptr, fw_receiver_release};
};

/// @private A sender, and what its receiver announced, which never changes.
struct OpenSender {
  explicit OpenSender(Only<fw_sender> sender) : handle(std::move(sender)) {
    fw_tensor_spec spec = {};
    kind = static_cast<EdgeKind>(fw_sender_announced(handle.get(), &spec));
    announced = to_spec(spec);
  }

  const Only<fw_sender> handle;
  EdgeKind kind = EdgeKind::kDynamic;
  TensorSpec announced;
};

}  // namespace internal

/// One received tensor. Copies share it. The last copy grants its slot again, or returns its lease.
/// It may outlive receiver, channel, device and peer. Thread-safe as a shared_ptr is.
class ReceivedTensor {
 public:
  ReceivedTensor() = default;
  /// @private Made by TensorReceiver::receive() and try_receive().
  explicit ReceivedTensor(fw_tensor* handle)
      : state_(std::make_shared<const internal::ArrivedTensor>(
            internal::only(handle, fw_tensor_release))) {}

  /// False for a handle that was default-constructed or moved from. It allows no other call.
  bool valid() const { return state_ != nullptr; }
  /// The type and shape that the sender stated. Valid as long as this handle.
  const TensorSpec& spec() const { return state_->spec; }
  /// The tensor's bytes, 64-byte aligned. An aliased tensor has the alignment of the sender's
  /// memory. Never null, even when size() is 0.
  const std::byte* data() const { return state_->data; }
  std::uint64_t size() const { return state_->bytes; }  ///< bytes
  /// Grows by one with every tensor that the sender sent. A gap means that a tensor was dropped.
  std::uint64_t sequence() const { return state_->sequence; }
  Arrival arrival() const { return state_->arrival; }  ///< how the tensor arrived

 private:
  std::shared_ptr<const internal::ArrivedTensor> state_;
};

/// The receiving end of an edge. Copies share the receiver. It closes when close() is called or the
/// last handle is gone. Thread-safe.
class TensorReceiver {
 public:
  /// Allocates the slots and announces the edge. Does not wait for the sender. kAlreadyExists while
  /// another receiver of this side has `name` (at most kMaxNameBytes) on this channel.
  /// kFailedPrecondition if the channel has streams.
  static Result<TensorReceiver> open(const Channel& channel, std::string_view name,
                                     const ReceiverOptions& options);

  TensorReceiver() = default;
  /// @private Made by open().
  explicit TensorReceiver(std::shared_ptr<const internal::OpenReceiver> state)
      : state_(std::move(state)) {}
  /// @private
  fw_receiver* handle() const { return state_->handle.get(); }
  /// False for a handle that was default-constructed or moved from. It allows no other call.
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
  Status wait(std::chrono::nanoseconds timeout = kForever) {
    return internal::taken(fw_receiver_wait(handle(), internal::to_ns(timeout)));
  }
  /// Takes the next tensor if there is one. It may wait only to map a segment of the peer's memory
  /// for the first time.
  Result<std::optional<ReceivedTensor>> try_receive() { return take(std::chrono::nanoseconds(0)); }

  /// Abort: drops the tensors that have arrived and those in flight, until the sender receives the
  /// reset. Later tensors arrive as usual. Views stay valid. Never blocks.
  Status reset() { return internal::taken(fw_receiver_reset(handle())); }

  /// The counts of this side.
  TensorStats stats() const;
  /// Ends the edge. After it returns ok, no later byte lands. kPeerSilent as for
  /// MemoryRegion::close(). Views stay valid. A second close() is ok.
  Status close(std::chrono::nanoseconds timeout = std::chrono::seconds(1)) {
    return internal::taken(fw_receiver_close(handle(), internal::to_ns(timeout)));
  }

 private:
  // Without a value if no tensor came in time.
  Result<std::optional<ReceivedTensor>> take(std::chrono::nanoseconds timeout);

  std::shared_ptr<const internal::OpenReceiver> state_;
};

/// The sending end of an edge. Copies share the sender. Only close() ends the stream normally:
/// a sender whose last handle goes before abandons it. Thread-safe. Tensors that several threads
/// send at the same time arrive in an unspecified order.
class TensorSender {
 public:
  /// Waits for the peer's receiver of that name, also for one that is opened again. After `timeout`
  /// kDeadlineExceeded, or kAlreadyExists if the edge has, or had, another sender.
  /// kFailedPrecondition if the channel has streams.
  /// @param device the device that the channel belongs to
  static Result<TensorSender> open(const Device& device, const Channel& channel,
                                   std::string_view name,
                                   std::chrono::nanoseconds timeout = std::chrono::seconds(10));

  TensorSender() = default;
  /// @private Made by open().
  explicit TensorSender(fw_sender* handle)
      : state_(std::make_shared<const internal::OpenSender>(
            internal::only(handle, fw_sender_release))) {}
  /// @private
  fw_sender* handle() const { return state_->handle.get(); }
  /// False for a handle that was default-constructed or moved from. It allows no other call.
  bool valid() const { return state_ != nullptr; }

  /// The kind that the receiver announced.
  EdgeKind kind() const { return state_->kind; }
  /// The spec that the receiver announced. For kBounded the dims are empty; for kDynamic every
  /// field is.
  const TensorSpec& announced() const { return state_->announced; }

  /// Sends one tensor. Where no slot is free and no memory is left to offer it, waits for one of
  /// them until `timeout`, and processes notifications meanwhile. After a second it logs which
  /// receiver it waits for. 0 fails immediately instead. Do not wait in a handler of a channel, or
  /// in the only thread that receives on the other side.
  ///
  /// The Completion is done when the source may be reused. For a push, this is immediately or soon.
  /// For an offer of the device's memory, it is when the receiver has dropped the tensor. Other
  /// memory is copied before it is offered, up to 4096 bytes into the offer itself. An offer does
  /// not keep the device open: when it closes, a receiver that has not taken the offer may miss the
  /// tensor. close() of the sender waits for that. A callback of the Completion must not call a
  /// sender or receiver.
  ///
  /// Errors: kInvalidArgument if `spec` does not match the edge or bytes.size; kDeadlineExceeded if
  /// the wait found neither a slot nor memory, or a lane that stayed full; kResourceExhausted
  /// without a wait, because `timeout` is 0, or because the receiver holds nothing that could come
  /// back and the tensor must be offered and send_limit_per_peer, or send_limit for the copy, is
  /// reached; kUnavailable once the receiver has closed.
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
  Status close(std::chrono::nanoseconds timeout = std::chrono::seconds(10)) {
    return internal::taken(fw_sender_close(handle(), internal::to_ns(timeout)));
  }
  /// Ends the stream before its end, without waiting. The receiver still gets what it can get, and
  /// then kUnavailable instead of kEndOfStream. No effect after close().
  Status abandon() { return internal::taken(fw_sender_abandon(handle())); }

 private:
  std::shared_ptr<const internal::OpenSender> state_;
};

inline Result<TensorReceiver> TensorReceiver::open(const Channel& channel, std::string_view name,
                                                   const ReceiverOptions& options) {
  constexpr std::string_view kOperation = "open a tensor receiver";
  if (!channel.valid()) {
    return Status::error(StatusCode::kInvalidArgument, {kOperation}, "the channel handle is empty",
                         "use a channel that connect() or accept() returned");
  }
  FARWRITE_RETURN_IF_ERROR(internal::refuse_zero(kOperation, "the name", name));
  auto state = std::make_shared<internal::OpenReceiver>();
  state->allocator = options.allocator;
  state->name = name;
  state->peer_name = channel.peer_name();
  fw_receiver_options c = {};
  c.struct_size = sizeof(c);
  c.kind = static_cast<std::uint32_t>(options.kind);
  if (options.kind != EdgeKind::kDynamic) {
    FARWRITE_RETURN_IF_ERROR(internal::refuse_zero(kOperation, "its dtype", options.spec.dtype));
    c.spec = internal::to_c_spec(options.spec);
  }
  c.max_bytes = options.max_bytes;
  c.slots = options.slots;
  c.lane = options.lane;
  c.copy_offers = options.copy_offers ? 1 : 0;
  if (options.lowering.has_value()) c.lowering = static_cast<std::uint32_t>(*options.lowering);
  if (state->allocator) {
    c.allocate = internal::allocate_tensor;
    c.deallocate = internal::deallocate_tensor;
    c.context = &state->allocator;
  }
  c.exact = 1;
  fw_receiver* receiver = nullptr;
  FARWRITE_RETURN_IF_ERROR(
      internal::taken(fw_receiver_open(channel.handle(), state->name.c_str(), &c, &receiver)));
  state->handle.reset(receiver);
  return TensorReceiver(std::move(state));
}

inline Result<ReceivedTensor> TensorReceiver::receive(std::chrono::nanoseconds timeout) {
  Result<std::optional<ReceivedTensor>> next = take(timeout);
  if (!next.ok()) return next.status();
  if (next->has_value()) return **std::move(next);
  // The library knows whether the peer is silent.
  if (Status late = wait(std::chrono::nanoseconds(0)); !late.ok()) return late;
  return Status::error(StatusCode::kDeadlineExceeded, {"receive a tensor", state_->peer_name},
                       "no tensor of \"" + state_->name + "\" arrived in time",
                       "wait longer, or check whether the peer is alive");
}

inline Result<std::optional<ReceivedTensor>> TensorReceiver::take(
    std::chrono::nanoseconds timeout) {
  Status no_memory;
  Status* const outer = std::exchange(internal::allocator_error(), &no_memory);
  fw_tensor* tensor = nullptr;
  Status status = internal::taken(fw_receiver_receive(handle(), internal::to_ns(timeout), &tensor));
  internal::allocator_error() = outer;
  // The refusal of memory for a tensor behind the next one is no error of this call.
  if (status.code() == StatusCode::kResourceExhausted && !no_memory.ok()) return no_memory;
  if (!status.ok()) return status;
  std::optional<ReceivedTensor> received;
  if (tensor != nullptr) received.emplace(tensor);
  return received;
}

inline TensorStats TensorReceiver::stats() const {
  fw_tensor_stats known = {};
  known.struct_size = sizeof(known);
  fw_receiver_stats(handle(), &known);
  return internal::to_tensor_stats(known);
}

inline Result<TensorSender> TensorSender::open(const Device& device, const Channel& channel,
                                               std::string_view name,
                                               std::chrono::nanoseconds timeout) {
  constexpr std::string_view kOperation = "open a tensor sender";
  if (!channel.valid() || !device.valid()) {
    return Status::error(StatusCode::kInvalidArgument, {kOperation},
                         "the device or channel handle is empty", "use an open device and channel");
  }
  FARWRITE_RETURN_IF_ERROR(internal::refuse_zero(kOperation, "the name", name));
  fw_sender* sender = nullptr;
  FARWRITE_RETURN_IF_ERROR(
      internal::taken(fw_sender_open(device.handle(), channel.handle(), std::string(name).c_str(),
                                     internal::to_ns(timeout), &sender)));
  return TensorSender(sender);
}

inline Completion TensorSender::send(const TensorSpec& spec, ByteView bytes,
                                     std::chrono::nanoseconds timeout) {
  Status bad = internal::refuse_zero("send a tensor", "its dtype", spec.dtype);
  if (!bad.ok()) return Completion(std::move(bad));
  const fw_tensor_spec c = internal::to_c_spec(spec);
  fw_completion* posted = nullptr;
  fw_status* const status =
      fw_sender_send(handle(), &c, bytes.data, bytes.size, internal::to_ns(timeout), &posted);
  return Completion::adopt(status, posted);
}

inline TensorStats TensorSender::stats() const {
  fw_tensor_stats known = {};
  known.struct_size = sizeof(known);
  fw_sender_stats(handle(), &known);
  return internal::to_tensor_stats(known);
}

FARWRITE_END
