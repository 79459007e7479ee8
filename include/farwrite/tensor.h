// Tensors over a channel: a sender pushes, a receiver gets views of what landed.
//
// An edge is a stream of tensors with a name, from one TensorSender to one TensorReceiver; a
// channel carries any number of them, in both directions. A channel that carries tensors belongs to
// them: its notifications are taken here, so use it for nothing else that notifies.
//
//   - kStatic:  shape and dtype are known in advance. One write per tensor, into memory that the
//               receiver has granted.
//   - kBounded: dtype and largest size are known. One write; the shape travels with the bytes.
//   - kDynamic: nothing is known. The sender offers; the receiver looks at the sender's memory, or
//               reads it.
//
// A sender that finds no free slot never blocks and never fails: it offers that tensor, and counts
// it. A slot is granted again when the last copy of its ReceivedTensor is gone. No thread is
// started: whoever waits in receive() or open() takes what comes, for everybody on the channel.
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

inline constexpr std::size_t kMaxDtypeBytes = 512;
inline constexpr std::size_t kMaxDimensions = 16;
// A peer that announces a larger tensor breaks the protocol; no memory is asked for.
inline constexpr std::uint64_t kMaxTensorBytes = std::uint64_t{1} << 62;
inline constexpr std::uint32_t kMaxSlots = 1024;  // of one edge

// What the bytes of a tensor mean. Farwrite compares it and never interprets it.
struct FARWRITE_API TensorSpec {
  std::string dtype;             // "<f4"; any text of at most kMaxDtypeBytes
  std::uint32_t item_bytes = 1;  // of one element
  std::vector<std::uint64_t> dims;

  // The tensor's size. kInvalidArgument for too many dimensions, a dtype that is too long, or a
  // product that does not fit into 64 bits. A rank of 0 is one element, a dim of 0 none.
  Result<std::uint64_t> bytes() const;

  friend bool operator==(const TensorSpec& a, const TensorSpec& b) {
    return a.dtype == b.dtype && a.item_bytes == b.item_bytes && a.dims == b.dims;
  }
  friend bool operator!=(const TensorSpec& a, const TensorSpec& b) { return !(a == b); }
};

// The numbers are part of the wire protocol: never renumber.
enum class EdgeKind : std::uint8_t { kStatic = 1, kBounded = 2, kDynamic = 3 };

// "bounded"
FARWRITE_API std::string_view to_string(EdgeKind kind);

// Memory for a tensor that has to be read, 64-byte aligned and as large as asked for. `owner` keeps
// it, and goes with the last copy of the ReceivedTensor.
struct TensorMemory {
  std::byte* data = nullptr;
  std::shared_ptr<void> owner;
};

struct ReceiverOptions {
  EdgeKind kind = EdgeKind::kDynamic;
  TensorSpec spec;              // kStatic: all of it; kBounded: dtype and item_bytes; else ignored
  std::uint64_t max_bytes = 0;  // kBounded: the largest tensor
  std::uint32_t slots = 2;      // kStatic, kBounded: landing places, 1 to kMaxSlots
  std::uint32_t lane = 0;       // the edge's lane, in both directions
  // Read offers into memory of this process, also where the peer's could be looked at.
  bool copy_offers = false;
  // How a landing is made known; without one, as the channel's notified writes are. kTailFlag is
  // never chosen, only forced: kStatic only, over a fabric that keeps the order within a write. A
  // lowering that this channel cannot do, or does not use, is an error that says why.
  std::optional<NotificationLowering> lowering;
  // Where read offers go; without one, memory of the C++ heap. Called by the thread that receives.
  std::function<Result<TensorMemory>(const TensorSpec& spec, std::uint64_t bytes)> allocator;
};

// How a tensor came.
enum class Arrival : std::uint8_t {
  kPushed,   // into a slot
  kAliased,  // offered: a view of the sender's memory
  kRead,     // offered and read into memory of this process
};

// "pushed"
FARWRITE_API std::string_view to_string(Arrival arrival);

// One tensor. Copies share it; the last one grants its slot again, or gives its lease back. It may
// outlive receiver, channel, device and peer. Thread-safe as a shared_ptr is.
class FARWRITE_API ReceivedTensor {
 public:
  ReceivedTensor() = default;
  explicit ReceivedTensor(std::shared_ptr<const transfer::Received> state)
      : state_(std::move(state)) {}

  bool valid() const { return state_ != nullptr; }
  const TensorSpec& spec() const;
  // 64-byte aligned; when the tensor was aliased, aligned as the sender's memory is. Not null, also
  // when size() is 0.
  const std::byte* data() const;
  std::uint64_t size() const;  // bytes
  // Grows by one with every tensor that the sender sent; a hole is a tensor that was dropped.
  std::uint64_t sequence() const;
  Arrival arrival() const;

 private:
  std::shared_ptr<const transfer::Received> state_;
};

// Counts since the edge was opened, on one side. What a side cannot know stays 0.
struct TensorStats {
  std::uint64_t pushed = 0;             // tensors into slots
  std::uint64_t offered = 0;            // tensors offered, for whatever reason
  std::uint64_t offers_no_slot = 0;     // of these, because no slot was free
  std::uint64_t staged = 0;             // tensors copied by the sender first, to be offered
  std::uint64_t aliased = 0;            // offers that the receiver looked at
  std::uint64_t read = 0;               // offers that it read
  std::uint64_t allocations = 0;        // blocks of memory taken for a tensor
  std::uint64_t registrations = 0;      // segments that the device registered meanwhile
  std::uint64_t requests = 0;           // asked of the peer: opened slots, reads
  std::uint64_t dropped_stale = 0;      // pushes of before reset(); their credit came back
  std::uint64_t dropped_malformed = 0;  // pushes that did not fit what was announced
  std::uint64_t dropped_offers = 0;     // offers that were either
  std::uint64_t dropped_unseen = 0;     // arrived, and reset() or close() came before receive()
  // Of slots. At the receiver grants == pushed + dropped_stale + dropped_malformed + revoked +
  // slots_granted, at the sender grants == pushed + slots_granted.
  std::uint64_t grants = 0;
  std::uint64_t revoked = 0;  // grants taken back unused, by reset() or close()
  std::uint64_t slots_free = 0, slots_granted = 0, slots_landed = 0, slots_viewed = 0;  // now
};

// Copies share the receiver; it closes when close() is called or the last handle is gone.
// Thread-safe.
class FARWRITE_API TensorReceiver {
 public:
  // Allocates the slots and announces the edge; does not wait for the sender. kAlreadyExists while
  // another receiver of this side has `name` (at most kMaxNameBytes) on this channel.
  static Result<TensorReceiver> open(const Channel& channel, std::string_view name,
                                     const ReceiverOptions& options);

  TensorReceiver() = default;
  explicit TensorReceiver(std::shared_ptr<transfer::ReceiverState> state)
      : state_(std::move(state)) {}
  bool valid() const { return state_ != nullptr; }

  // The next tensor, in the order of sending. kDeadlineExceeded; kUnavailable once the sender has
  // closed and everything was taken; kCancelled if this receiver is closed; the channel's error at
  // its end. Waits on while the peer is silent. Any other error is that of one tensor, which is
  // lost: an offer that can no longer be looked at, no memory to read it into.
  Result<ReceivedTensor> receive(std::chrono::nanoseconds timeout = kForever);
  // Ok when receive() has something to give or to tell at once; takes nothing. kDeadlineExceeded.
  Status wait(std::chrono::nanoseconds timeout = kForever);
  // Takes one if it is there. Only the first look at a segment of the peer's memory may wait.
  Result<std::optional<ReceivedTensor>> try_receive();

  // Abort: drops what has arrived and what is on its way, up to the moment at which the sender
  // hears of it; later tensors come as usual. Views stay valid. Never blocks.
  Status reset();

  TensorStats stats() const;
  // Ends the edge. No byte lands any more when it returns ok; kPeerSilent as MemoryRegion::close().
  // Views stay valid. Closing twice is ok.
  Status close(std::chrono::nanoseconds timeout = std::chrono::seconds(1));

 private:
  std::shared_ptr<transfer::ReceiverState> state_;
};

// Copies share the sender; it closes when close() is called or the last handle is gone.
// Thread-safe; tensors that several threads send at once come in some order.
class FARWRITE_API TensorSender {
 public:
  // Waits for the peer's receiver of that name. `device` is the channel's own. kAlreadyExists if
  // another sender has the edge.
  static Result<TensorSender> open(const Device& device, const Channel& channel,
                                   std::string_view name,
                                   std::chrono::nanoseconds timeout = std::chrono::seconds(10));

  TensorSender() = default;
  explicit TensorSender(std::shared_ptr<transfer::SenderState> state) : state_(std::move(state)) {}
  bool valid() const { return state_ != nullptr; }

  // What the receiver announced; the spec's dims are empty for kBounded, all of it for kDynamic.
  EdgeKind kind() const;
  const TensorSpec& announced() const;

  // Never waits for the peer. Done when the source may be reused: of a push at once or soon, of an
  // offer in memory of the device when the receiver has dropped it; other memory is copied first.
  // An offer under way keeps the device open. A callback of the Completion must not call a sender
  // or receiver. kInvalidArgument if `spec` is not the edge's or does not have bytes.size bytes;
  // kResourceExhausted if the tensor must be offered and send_limit_per_peer, or send_limit for the
  // copy, is reached; kUnavailable once the receiver has closed.
  Completion send(const TensorSpec& spec, ByteView bytes);

  // Looks first at what the receiver has said meanwhile.
  TensorStats stats() const;
  // Ends the edge; what was sent is still received. Closing twice is ok.
  Status close();

 private:
  std::shared_ptr<transfer::SenderState> state_;
};

}  // namespace farwrite
