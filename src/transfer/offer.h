// OfferedTensor: a tensor of which nothing was known before, on its way from offer to view (paper
// section 3.3, dynamic tensors): a metadata record, memory, a read, a release.
//
// The sender lends the bytes with the record, so no address travels in it: what the receiver may
// look at is the lease that came along. A small tensor that would have to be copied for that comes
// in the record itself, for less than a lease costs (the eager protocol). Also how static and
// bounded edges send without a free slot.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "core/mutex.h"
#include "device/channel.h"
#include "transfer/received.h"
#include "transfer/records.h"
#include "transfer/tensor.h"

namespace farwrite::transfer {

// The metadata record, kOffer.
//    0 u32 edge   4 u32 round   8 u64 sequence   16 u64 device epoch   24 u64 bytes
//   32 spec: u32 item bytes, string dtype, u8 rank, u64 dims    then u64 checksum of all before it
//   the tensor's bytes, or nothing
struct OfferRecord {
  std::uint32_t edge = 0;
  std::uint32_t round = 0;  // the receiver's, as the sender knew it
  std::uint64_t sequence = 0;
  std::uint64_t epoch = 0;  // of the sender's device
  std::uint64_t bytes = 0;
  TensorSpec spec;
  ByteView eager;  // the tensor, inside of what was decoded; empty if it is lent

  template <typename Wire>
  void fields(Wire& wire);  // up to the checksum
  // Without the tensor, which the caller appends.
  std::vector<std::byte> encode() const;
  // Also checks the spec, and the size of an eager tensor, against `bytes`.
  static Result<OfferRecord> decode(ByteView bytes);
};

// The most bytes of a tensor that travel in its offer. A larger one takes longer to copy than to
// lend.
inline constexpr std::uint64_t kMaxEagerBytes = 4096;

// What the receiver of a named edge accepts.
struct EdgeTerms {
  std::uint32_t edge = 0;
  EdgeKind kind = EdgeKind::kStatic;
  TensorSpec spec;             // kStatic: all of it; kBounded: without dims
  std::uint64_t capacity = 0;  // payload bytes

  // Whether a tensor that landed in a slot is what the edge carries.
  bool fit(const PushDescription& push, std::uint64_t bytes) const;
};

// Why an offer is not for a receiver, or that it is.
enum class OfferVerdict : std::uint8_t {
  kWelcome,
  kStale,      // made before the receiver aborted, or by an earlier start of the device
  kMalformed,  // does not fit the edge's terms, or its lease
};
// `lent_bytes`: of the lease that came along; nothing if there was none.
OfferVerdict judge_offer(const OfferRecord& offer, const EdgeTerms& terms, std::uint32_t round,
                         std::uint64_t epoch, std::optional<std::uint64_t> lent_bytes);

// The receiver's half: a welcome offer, until it is a tensor. start() is thread-safe; finish() is
// for the one whose turn it is, after its own start() has succeeded.
class OfferedTensor {
 public:
  using Allocator = std::function<Result<TensorMemory>(const TensorSpec&, std::uint64_t)>;

  // `message`: what the offer was decoded from.
  OfferedTensor(OfferRecord offer, std::vector<std::byte> message, RemoteRegion lent)
      : offer_(std::move(offer)), message_(std::move(message)), lent_(std::move(lent)) {}
  ~OfferedTensor();
  OfferedTensor(const OfferedTensor&) = delete;
  OfferedTensor& operator=(const OfferedTensor&) = delete;

  std::uint64_t bytes() const { return offer_.bytes; }

  enum class Start : std::uint8_t {
    kReading,  // this call has allocated and started to read
    kOver,     // there is nothing to read, or it was started before
  };
  // Looks at the memory, or allocates and starts to read it. What came eagerly is copied. May wait
  // once for the peer's segment, up to `timeout`. After an error nothing is started.
  Result<Start> start(Channel& channel, bool copy, const Allocator& allocator,
                      std::chrono::nanoseconds timeout);
  // As start() without waiting, for who reads ahead: not while another thread is at it.
  Result<Start> start_ahead(Channel& channel, bool copy, const Allocator& allocator);
  // The tensor, once. kDeadlineExceeded: call again. After any other error, start() begins anew.
  Result<ReceivedTensor> finish(std::chrono::nanoseconds timeout);

 private:
  Result<Start> start_locked(Channel& channel, bool copy, const Allocator& allocator,
                             std::chrono::nanoseconds timeout) FW_REQUIRES(starting_);
  Result<Start> start_read(Channel& channel, const Allocator& allocator) FW_REQUIRES(starting_);
  Status allocate(const Allocator& allocator) FW_REQUIRES(starting_);
  void begin_anew();

  OfferRecord offer_;
  std::vector<std::byte> message_;  // that offer_.eager is in
  RemoteRegion lent_;
  // A reader ahead and the one whose turn it is.
  core::Mutex starting_{core::LockRank::kTransfer, 2};
  bool started_ FW_GUARDED_BY(starting_) = false;  // only finish() changes what follows from now on
  Alias alias_;
  TensorMemory memory_;
  std::optional<Completion> reading_;
};

}  // namespace farwrite::transfer
