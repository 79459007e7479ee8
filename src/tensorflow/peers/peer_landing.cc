// PeerProcess: what it tells and hears of slots, and the write into one.
#include <array>
#include <memory>
#include <utility>

#include "peers/peer_process.h"
#include "peers/record.h"
#include "server/runtime.h"
#include "stats/stats.h"
#include "tensorflow/core/platform/logging.h"
#include "tensors/push_message.h"

namespace farwrite::plugin {
namespace {

// Credits go back with what is sent anyway; alone, after this. A step that keeps its tensors for
// less has two slots an edge.
constexpr std::chrono::microseconds kFreedDelay(1000);
constexpr std::uint64_t kOpenTimeout = 10'000'000'000;  // ns
constexpr std::size_t kMaxDescriptorBytes = 1024;

// Owns what is written, and where to, until the last byte has left.
struct Landing {
  tensorflow::Tensor tensor;
  Target target;
};

void landed(void* context, const char* error) {
  const std::unique_ptr<Landing> landing(static_cast<Landing*>(context));
  // The channel's end, of which the receiver hears as well.
  if (error != nullptr) VLOG(1) << "Farwrite: a tensor did not land: " << error;
}

std::string slot_message(PushKind kind, std::string_view edge, const RecordWriter& record) {
  PushMessage message;
  message.kind = kind;
  message.key = edge;
  message.payload = record.bytes();
  return encode(message);
}

std::vector<std::uint32_t> read_slots(std::string_view bytes) {
  RecordReader record(bytes);
  std::vector<std::uint32_t> slots;
  while (!record.rest().empty()) {
    const auto slot = record.number<std::uint32_t>();
    if (!record.ok()) break;
    slots.push_back(slot);
  }
  return slots;
}

std::string write_slots(PushKind kind, const std::vector<std::uint32_t>& slots) {
  RecordWriter record(4 * slots.size());
  for (const std::uint32_t slot : slots) record.number(slot);
  return slot_message(kind, {}, record);
}

}  // namespace

std::string encode_freed(const std::vector<FreedSlot>& freed) {
  RecordWriter record(12 * freed.size());
  for (const FreedSlot& slot : freed) {
    record.number(slot.slot);
    record.number(slot.generation);
  }
  return slot_message(PushKind::kSlotsFreed, {}, record);
}

absl::Status PeerProcess::land(const Credit& credit, const LandingHeadBytes& head, const void* data,
                               std::uint64_t bytes, const tensorflow::Tensor& tensor) {
  const Channel channel = this->channel();
  if (channel == nullptr) return gone();
  send_what_waits(channel.get());
  auto landing = std::make_unique<Landing>(Landing{tensor, credit.target});
  const FwStatus status(fw_target_write(credit.target.get(), head.data(), head.size(), data, bytes,
                                        credit.slot, read_lane(), &landed, landing.get()));
  if (status != nullptr) {
    put_back(credit);
    return absl::UnavailableError(message_of(status));
  }
  (void)landing.release();  // landed() has it
  return absl::OkStatus();
}

void PeerProcess::put_back(const Credit& credit) {
  if (!credits_.freed(credit.slot, credit.generation)) give_up({credit.slot});
}

void PeerProcess::give_up(const std::vector<std::uint32_t>& slots) {
  if (!slots.empty()) send_later(write_slots(PushKind::kSlotsGivenUp, slots));
}

// Opening may wait for the peer: on a thread that may, or a peer that is stopped would hold up the
// steps of all.
void PeerProcess::peer_opened(const PushMessage& message) {
  RecordReader record(message.payload);
  const auto slot = record.number<std::uint32_t>();
  const auto generation = record.number<std::uint64_t>();
  const auto capacity = record.number<std::uint64_t>();
  const std::string descriptor(record.text());
  if (!record.ok()) {
    LOG(ERROR) << "Farwrite: the peer " << name_ << " sent a malformed slot announcement";
    return;
  }
  schedule([self = shared_from_this(), edge = std::string(message.key), slot, generation, capacity,
            descriptor] {
    const Channel channel = self->channel();
    if (channel == nullptr) return;
    fw_target* target = nullptr;
    const FwStatus opened(fw_channel_open(channel.get(), descriptor.data(), descriptor.size(),
                                          kOpenTimeout, &target));
    if (opened != nullptr) {
      count(stats().slots_refused);
      VLOG(1) << "Farwrite: cannot open a slot: " << message_of(opened);
      self->credits_.not_opened(slot);
      self->give_up({slot});
      return;
    }
    const Target owned(target, &fw_target_release);
    const std::uint64_t bytes = fw_target_bytes(target);
    if (bytes < kLandingHeadBytes || bytes - kLandingHeadBytes < capacity) {
      count(stats().slots_refused);
      LOG(ERROR) << "Farwrite: the peer " << self->name_ << " opened a slot of " << bytes
                 << " bytes and announced it for a tensor of " << capacity
                 << "; the slot is not used";
      self->credits_.not_opened(slot);
      self->give_up({slot});
      return;
    }
    self->credits_.opened(edge, slot, generation, capacity, owned);
  });
}

void PeerProcess::peer_freed(std::string_view slots) {
  std::vector<std::uint32_t> unknown;
  RecordReader record(slots);
  while (!record.rest().empty()) {
    const auto slot = record.number<std::uint32_t>();
    const auto generation = record.number<std::uint64_t>();
    if (!record.ok()) break;
    if (!credits_.freed(slot, generation)) unknown.push_back(slot);
  }
  // Withdrawn while they came back: the receiver waits to hear that nobody writes into them.
  give_up(unknown);
}

void PeerProcess::peer_withdraws(std::string_view slots) {
  std::vector<std::uint32_t> unused;
  for (const std::uint32_t slot : read_slots(slots)) {
    if (credits_.withdrawn(slot)) unused.push_back(slot);
  }
  give_up(unused);
}

void PeerProcess::peer_gave_up(std::string_view slots) { landing_->given_up(read_slots(slots)); }

absl::Status PeerProcess::allocate(std::uint64_t bytes, fw_region** region) {
  const Channel channel = this->channel();
  if (channel == nullptr) return gone();
  const FwStatus status(fw_channel_allocate(channel.get(), bytes, region));
  return status == nullptr ? absl::OkStatus() : absl::ResourceExhaustedError(message_of(status));
}

void PeerProcess::slot_opened(const std::string& edge, std::uint32_t slot, std::uint64_t generation,
                              std::uint64_t capacity, const fw_region* region) {
  std::array<char, kMaxDescriptorBytes> descriptor;
  const std::uint64_t length = fw_region_describe(region, descriptor.data(), descriptor.size());
  RecordWriter record(24 + length);
  record.number(slot);
  record.number(generation);
  record.number(capacity);
  record.text({descriptor.data(), length});
  if (!send(slot_message(PushKind::kSlotOpened, edge, record)).ok()) landing_->given_up({slot});
}

void PeerProcess::slot_freed(std::uint32_t slot, std::uint64_t generation) {
  {
    const std::lock_guard<std::mutex> lock(waiting_mutex_);
    freed_.push_back({slot, generation});
    waits_.store(true);
    if (freed_.size() > 1) return;
  }
  send_later_at_most(kFreedDelay);
}

void PeerProcess::withdraw_slots(const std::vector<std::uint32_t>& slots) {
  (void)send(write_slots(PushKind::kSlotsWithdrawn, slots));
}

}  // namespace farwrite::plugin
