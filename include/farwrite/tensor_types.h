/// @file
/// What describes tensors and their edges.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "farwrite/channel_types.h"
#include "farwrite/internal/namespace.h"
#include "farwrite/status.h"

FARWRITE_BEGIN

/// The longest TensorSpec::dtype, in bytes.
inline constexpr std::size_t kMaxDtypeBytes = 512;
/// The highest rank of a tensor.
inline constexpr std::size_t kMaxDimensions = 16;
/// The largest tensor, in bytes. A peer that announces a larger one breaks the protocol, and no
/// memory is allocated for it.
inline constexpr std::uint64_t kMaxTensorBytes = std::uint64_t{1} << 62;
inline constexpr std::uint32_t kMaxSlots = 1024;  ///< most slots of one edge

/// The type and shape of a tensor. Farwrite compares specs and never interprets them.
struct TensorSpec {
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

inline Result<std::uint64_t> TensorSpec::bytes() const {
  constexpr ErrorContext kWhere{"describe a tensor"};
  if (dims.size() > kMaxDimensions) {
    return Status::error(StatusCode::kInvalidArgument, kWhere,
                         "it has " + std::to_string(dims.size()) + " dimensions",
                         "use at most " + std::to_string(kMaxDimensions));
  }
  if (dtype.size() > kMaxDtypeBytes) {
    return Status::error(StatusCode::kInvalidArgument, kWhere,
                         "its dtype has " + std::to_string(dtype.size()) + " bytes",
                         "use at most " + std::to_string(kMaxDtypeBytes));
  }
  // Empty whatever the other dims are, so that their product need not fit.
  if (std::find(dims.begin(), dims.end(), 0) != dims.end()) return std::uint64_t{0};
  std::uint64_t product = item_bytes;
  for (const std::uint64_t dim : dims) {
    if (__builtin_mul_overflow(product, dim, &product)) {
      return Status::error(StatusCode::kInvalidArgument, kWhere,
                           "its size does not fit into 64 bits", "use smaller dimensions");
    }
  }
  return product;
}

/// How much of a tensor is known before it is sent. The numbers are part of the wire protocol:
/// never renumber.
enum class EdgeKind : std::uint8_t {
  kStatic = 1,   ///< shape and dtype are known
  kBounded = 2,  ///< dtype and largest size are known
  kDynamic = 3,  ///< neither is known
};

/// The name of the kind: "bounded".
inline std::string_view to_string(EdgeKind kind) {
  switch (kind) {
    case EdgeKind::kStatic:
      return "static";
    case EdgeKind::kBounded:
      return "bounded";
    case EdgeKind::kDynamic:
      return "dynamic";
  }
  return "unknown kind of edge";
}

/// Memory for a tensor that is read, or copied out of its offer: 64-byte aligned, of the requested
/// size. `owner` keeps the memory alive, and is destroyed with the last copy of the ReceivedTensor.
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
  /// Allocates the memory that offers are read into, or copied to. Unset: memory of the C++ heap.
  /// The receiving thread calls it.
  std::function<Result<TensorMemory>(const TensorSpec& spec, std::uint64_t bytes)> allocator;
};

/// How a tensor arrived.
enum class Arrival : std::uint8_t {
  kPushed,   ///< written into a slot
  kAliased,  ///< offered, and mapped as a view of the sender's memory
  kRead,     ///< offered, and read into memory of this process
  kEager,    ///< came in the offer itself, and is in memory of this process
};

/// The name of the arrival: "pushed".
inline std::string_view to_string(Arrival arrival) {
  switch (arrival) {
    case Arrival::kPushed:
      return "pushed";
    case Arrival::kAliased:
      return "aliased";
    case Arrival::kRead:
      return "read";
    case Arrival::kEager:
      return "eager";
  }
  return "unknown arrival";
}

/// Counts of one side since the edge was opened. A count that a side cannot determine stays 0.
struct TensorStats {
  std::uint64_t pushed = 0;          ///< tensors written into slots
  std::uint64_t offered = 0;         ///< tensors offered, for any reason
  std::uint64_t offers_no_slot = 0;  ///< of these, because no slot was free
  std::uint64_t staged = 0;         ///< tensors that the sender copied into memory that it can lend
  std::uint64_t aliased = 0;        ///< offers that the receiver mapped
  std::uint64_t read = 0;           ///< offers that the receiver read
  std::uint64_t eager = 0;          ///< offers that had the tensor in them: small ones
  std::uint64_t allocations = 0;    ///< blocks of memory allocated for a tensor
  std::uint64_t registrations = 0;  ///< segments that the device registered meanwhile
  std::uint64_t requests = 0;       ///< requests to the peer: opened slots, reads
  std::uint64_t dropped_stale = 0;  ///< pushes from before reset(); their credit was returned
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

FARWRITE_END
