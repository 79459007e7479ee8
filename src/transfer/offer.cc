#include "transfer/offer.h"

#include <new>
#include <string>
#include <utility>

#include "core/mutex.h"
#include "memory/copy.h"
#include "transfer/checksum.h"
#include "transfer/records.h"

namespace farwrite::transfer {

template <typename Wire>
void OfferRecord::fields(Wire& wire) {
  wire(edge, round, sequence, epoch, bytes, SpecField{spec});
}

std::vector<std::byte> OfferRecord::encode() const {
  std::vector<std::byte> record = core::to_bytes(*this);
  const auto sum = core::to_array<8>(checksum({record.data(), record.size()}));
  record.insert(record.end(), sum.begin(), sum.end());
  return record;
}

Result<OfferRecord> OfferRecord::decode(ByteView record) {
  core::FieldReader reader(record);
  OfferRecord offer;
  reader(offer);
  const std::uint64_t sum = checksum({record.data, reader.position()});
  reader(core::constant(sum, "the checksum of an offer is wrong"), core::rest(offer.eager));
  FARWRITE_RETURN_IF_ERROR(reader.finish(kReadRecord));
  Result<std::uint64_t> size = offer.spec.bytes();
  if (!size.ok() || *size != offer.bytes || offer.bytes > kMaxTensorBytes) {
    return malformed_record("an offer whose size does not match its shape");
  }
  if (offer.eager.size > 0 && offer.eager.size != offer.bytes) {
    return malformed_record("an offer with a part of its tensor");
  }
  return offer;
}

bool EdgeTerms::fit(const PushDescription& push, std::uint64_t bytes) const {
  if (kind == EdgeKind::kStatic && push.dims != spec.dims) return false;
  Result<std::uint64_t> described = TensorSpec{spec.dtype, spec.item_bytes, push.dims}.bytes();
  return described.ok() && *described == bytes;
}

OfferVerdict judge_offer(const OfferRecord& offer, const EdgeTerms& terms, std::uint32_t round,
                         std::uint64_t epoch, std::optional<std::uint64_t> lent_bytes) {
  if (offer.epoch != epoch) return OfferVerdict::kStale;
  const std::uint64_t to_lend = offer.eager.size > 0 ? 0 : offer.bytes;
  if (lent_bytes.value_or(0) != to_lend) {
    return OfferVerdict::kMalformed;
  }
  if (terms.kind == EdgeKind::kStatic && offer.spec != terms.spec) return OfferVerdict::kMalformed;
  if (terms.kind == EdgeKind::kBounded &&
      (offer.spec.dtype != terms.spec.dtype || offer.spec.item_bytes != terms.spec.item_bytes ||
       offer.bytes > terms.capacity)) {
    return OfferVerdict::kMalformed;
  }
  if (offer.round > round) return OfferVerdict::kMalformed;
  return offer.round == round ? OfferVerdict::kWelcome : OfferVerdict::kStale;
}

OfferedTensor::~OfferedTensor() { begin_anew(); }

void OfferedTensor::begin_anew() {
  const core::Lock lock(starting_);
  if (reading_.has_value()) keep_until_settled(*reading_, std::move(memory_.owner));
  reading_.reset();
  memory_ = {};
  started_ = false;
}

Result<OfferedTensor::Start> OfferedTensor::start(Channel& channel, bool copy,
                                                  const Allocator& allocator,
                                                  std::chrono::nanoseconds timeout) {
  const core::Lock lock(starting_);
  return start_locked(channel, copy, allocator, timeout);
}

Result<OfferedTensor::Start> OfferedTensor::start_ahead(Channel& channel, bool copy,
                                                        const Allocator& allocator) {
  if (!starting_.try_lock()) return Start::kOver;
  const core::Lock lock(starting_, std::adopt_lock);
  return start_locked(channel, copy, allocator, std::chrono::nanoseconds(0));
}

Result<OfferedTensor::Start> OfferedTensor::start_locked(Channel& channel, bool copy,
                                                         const Allocator& allocator,
                                                         std::chrono::nanoseconds timeout) {
  if (started_ || offer_.bytes == 0) return Start::kOver;
  if (offer_.eager.size > 0) {
    FARWRITE_RETURN_IF_ERROR(allocate(allocator));
    FARWRITE_RETURN_IF_ERROR(copy_memory(memory_.data, offer_.eager.data, offer_.bytes));
    started_ = true;
    return Start::kOver;
  }
  if (copy && lent_.reached()) return start_read(channel, allocator);
  Result<Alias> alias = channel.alias(lent_, 0, offer_.bytes, timeout);
  if (alias.status().code() == StatusCode::kUnsupported || (copy && alias.ok())) {
    return start_read(channel, allocator);
  }
  if (!alias.ok()) return alias.status();
  alias_ = *std::move(alias);
  started_ = true;
  return Start::kOver;
}

Status OfferedTensor::allocate(const Allocator& allocator) {
  Result<TensorMemory> memory =
      allocator ? allocator(offer_.spec, offer_.bytes) : allocate_on_heap(offer_.bytes);
  if (!memory.ok()) return memory.status();
  if (memory->data == nullptr) {
    return Status::error(StatusCode::kResourceExhausted, {"receive a tensor"},
                         "the allocator returned no memory", "free some memory");
  }
  memory_ = *std::move(memory);
  return Status();
}

Result<OfferedTensor::Start> OfferedTensor::start_read(Channel& channel,
                                                       const Allocator& allocator) {
  FARWRITE_RETURN_IF_ERROR(allocate(allocator));
  started_ = true;
  reading_ = channel.read({memory_.data, offer_.bytes}, lent_);
  return Start::kReading;
}

Result<ReceivedTensor> OfferedTensor::finish(std::chrono::nanoseconds timeout) {
  auto received = std::make_shared<Received>();
  if (reading_.has_value()) {
    Status read = reading_->wait(timeout);
    if (read.code() == StatusCode::kDeadlineExceeded && reading_->done()) {
      // Either it ended right behind our deadline, and then this is its outcome, ...
      read = reading_->wait(std::chrono::nanoseconds(0));
      if (read.code() == StatusCode::kDeadlineExceeded) {
        // ... or it is the peer's word, not our timeout: nothing is left to wait for.
        read = Status(StatusCode::kUnavailable, read.message());
      }
    }
    if (!read.ok()) {
      if (read.code() != StatusCode::kDeadlineExceeded) begin_anew();
      return read;
    }
    reading_.reset();
    received->arrival = Arrival::kRead;
    received->data = memory_.data;
    received->memory = std::move(memory_.owner);
  } else if (offer_.bytes == 0) {  // its offer is all of it
    received->arrival = Arrival::kEager;
    received->data = nowhere();
  } else if (offer_.eager.size > 0) {
    received->arrival = Arrival::kEager;
    received->data = memory_.data;
    received->memory = std::move(memory_.owner);
  } else {
    received->arrival = Arrival::kAliased;
    received->data = alias_.data();
    received->alias = std::move(alias_);
  }
  lent_ = RemoteRegion();  // a read tensor needs the lease no longer; an alias holds it itself
  received->bytes = offer_.bytes;
  received->sequence = offer_.sequence;
  received->spec = std::move(offer_.spec);
  return ReceivedTensor(std::move(received));
}

void keep_until_settled(const Completion& completion, std::shared_ptr<void> memory) {
  if (memory == nullptr) return;
  static core::Mutex mutex{core::LockRank::kTransfer};
  static auto* const kept = new std::vector<std::pair<Completion, std::shared_ptr<void>>>();
  std::vector<std::shared_ptr<void>> free;  // goes after the lock
  const core::Lock lock(mutex);
  kept->emplace_back(completion, std::move(memory));
  std::erase_if(*kept, [&](auto& entry) {
    if (!entry.first.settled()) return false;
    free.push_back(std::move(entry.second));
    return true;
  });
}

Result<TensorMemory> allocate_on_heap(std::uint64_t bytes) {
  constexpr std::align_val_t kAlignment{64};
  // The library rounds the size up, and does not check whether it wraps around.
  void* const memory =
      bytes > kMaxTensorBytes ? nullptr : ::operator new(bytes, kAlignment, std::nothrow);
  if (memory == nullptr) {
    return Status::error(StatusCode::kResourceExhausted, {"receive a tensor"},
                         "no memory for " + std::to_string(bytes) + " bytes",
                         "drop tensors that are no longer needed");
  }
  return TensorMemory{static_cast<std::byte*>(memory), std::shared_ptr<void>(memory, [](void* old) {
                        ::operator delete(old, kAlignment);
                      })};
}

const std::byte* nowhere() {
  alignas(64) static const std::byte kNothing[64]{};
  return kNothing;
}

}  // namespace farwrite::transfer
