#include "tensor/receive.h"

#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "edges/edges.h"
#include "memory/arena_allocator.h"
#include "memory/received_buffer.h"
#include "peer/peer_process.h"
#include "stats/stats.h"
#include "tensor/push_message.h"
#include "tensor/staged_copies.h"
#include "tensorflow/core/framework/allocation_description.pb.h"
#include "tensorflow/core/framework/allocator.h"
#include "tensorflow/core/framework/tensor.pb.h"
#include "tensorflow/core/platform/logging.h"

namespace farwrite::plugin {
namespace {

namespace tf = ::tensorflow;

std::atomic<std::int64_t> views{0};

// A wait for a silent peer looks so often whether a caller still waits for it.
constexpr std::uint64_t kTurnNs = 100'000'000;

// A peer's memory as a tensor's buffer. It does not own the memory, and says so: no kernel takes it
// for its output, and a variable that it was assigned to copies before it writes.
class LentBuffer final : public ReceivedBuffer {
 public:
  LentBuffer(View view, const void* data, std::size_t bytes)
      : ReceivedBuffer(const_cast<void*>(data), bytes, false), view_(std::move(view)) {
    views.fetch_add(1, std::memory_order_relaxed);
  }
  ~LentBuffer() override { views.fetch_sub(1, std::memory_order_relaxed); }

  void FillAllocationDescription(tf::AllocationDescription* proto) const override {
    proto->set_requested_bytes(static_cast<std::int64_t>(size()));
    proto->set_allocator_name("farwrite_lent");
  }

 private:
  const View view_;
};

// A slot as a tensor's buffer. The memory is this process' own and nothing else writes it now, so
// kernels may write into it and use it as their output.
class LandedBuffer final : public ReceivedBuffer {
 public:
  LandedBuffer(Landed landed, void* data, std::size_t bytes)
      : ReceivedBuffer(data, bytes, true), landed_(std::move(landed)) {}

  void FillAllocationDescription(tf::AllocationDescription* proto) const override {
    proto->set_requested_bytes(static_cast<std::int64_t>(size()));
    proto->set_allocator_name("farwrite_slot");
  }

 private:
  const Landed landed_;
};

const char* way_of(PushKind kind) {
  switch (kind) {
    case PushKind::kInline:
      return "inline";
    case PushKind::kAlias:
      return "alias";
    default:
      return "serialized";
  }
}

tf::Tensor own_tensor(tf::DataType dtype, const tf::TensorShape& shape, const void* data,
                      std::size_t bytes) {
  tf::Tensor tensor(tf::cpu_allocator(), dtype, shape);
  if (bytes > 0) std::memcpy(tensor.data(), data, bytes);
  return tensor;
}

// kDeadlineExceeded: the peer has not answered within the timeout.
absl::Status map(const View& view, std::uint64_t expected, const void** data,
                 std::uint64_t timeout_ns = 0) {
  if (view == nullptr) {
    return absl::InternalError(
        "Farwrite: a peer pushed a tensor as lent memory, and lent no memory");
  }
  std::uint64_t bytes = 0;
  const FwStatus status(fw_remote_map(view.get(), timeout_ns, data, &bytes));
  if (status != nullptr) {
    const bool late = std::string_view(fw_status_code_name(status.get())) == "kDeadlineExceeded";
    return absl::Status(late ? absl::StatusCode::kDeadlineExceeded : absl::StatusCode::kUnavailable,
                        "Farwrite: cannot map a tensor that a peer lent: " + message_of(status));
  }
  return check_lent_bytes(bytes, expected);
}

absl::Status cannot_parse() {
  return absl::InternalError("Farwrite: a peer pushed a tensor that cannot be parsed");
}

absl::Status parse(const ArrivedTensor& arrival, tf::TensorProto* proto) {
  const void* data = arrival.serialized.data();
  std::uint64_t bytes = arrival.serialized.size();
  if (arrival.kind == PushKind::kSerializedLent) {
    bytes = arrival.tensor_bytes;
    const absl::Status mapped = map(arrival.lent, bytes, &data);
    if (!mapped.ok()) return mapped;
  }
  const bool parsed = bytes <= INT32_MAX && proto->ParseFromArray(data, static_cast<int>(bytes));
  return parsed ? absl::OkStatus() : cannot_parse();
}

// Tells the peer to keep its tensors, if its backlog is too large.
absl::Status mind_backlog(const std::shared_ptr<PeerProcess>& peer) {
  Backlog& backlog = *peer->backlog();
  const std::uint64_t bytes = backlog.bytes();
  if (bytes > Backlog::kMost) {
    if (peer->ended()) return absl::OkStatus();
    return absl::ResourceExhaustedError("it pushed " + std::to_string(bytes) +
                                        " bytes that no operation of this task has requested");
  }
  if (bytes > Backlog::kHold && !backlog.set_holding(true)) {
    PushMessage message;
    message.kind = PushKind::kHold;
    // Not here: the caller is a poller.
    peer->schedule([peer, text = encode(message)] {
      if (!peer->send(text).ok()) peer->backlog()->set_holding(false);  // the next push tries again
    });
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status check_lent_bytes(std::uint64_t lent, std::uint64_t expected) {
  if (lent == expected) return absl::OkStatus();
  return absl::InternalError("Farwrite: a peer lent " + std::to_string(lent) +
                             " bytes for a tensor of " + std::to_string(expected));
}

absl::Status PushReceiver::take(const std::shared_ptr<PeerProcess>& peer, std::string_view bytes,
                                View lent) {
  PushMessage message;
  if (!decode(bytes, &message) || message.kind == PushKind::kLanded) {
    // Maybe a caller waits for this tensor, and there is no telling who.
    return absl::InvalidArgumentError("it pushed " + std::to_string(bytes.size()) +
                                      " bytes that are not a push message");
  }
  const StepId step{message.receiver, message.step};
  switch (message.kind) {
    case PushKind::kStepGone:
      arrivals_.sender_dropped(step, message.sender, message.start);
      return absl::OkStatus();
    case PushKind::kWithdrawn:
      arrivals_.withdraw(step, message.key, message.sender);
      return absl::OkStatus();
    case PushKind::kStepFailed:
      arrivals_.sender_failed(step, message.sender, decode_failure(message.payload), peer.get(),
                              peer->backlog());
      return mind_backlog(peer);
    case PushKind::kHold:
    case PushKind::kResume:
      peer->set_held(message.kind == PushKind::kHold);
      return absl::OkStatus();
    default:
      break;
  }
  if (message.wants_slot && message.kind == PushKind::kAlias && !message.dead) {
    peer->want_slots(split_key(message.key).name, message.tensor_bytes);
  }
  ArrivedTensor arrival;
  arrival.kind = message.kind;
  arrival.way = way_of(message.kind);
  arrival.sent = message.sent;
  arrival.dead = message.dead;
  arrival.sender = message.sender;
  arrival.start = message.start;
  arrival.peer = peer.get();
  arrival.backlog = peer->backlog();
  arrival.read_lane = peer->lane_of(message.tensor_bytes);
  arrival.dtype = message.dtype;
  arrival.shape = message.shape;
  arrival.tensor_bytes = message.tensor_bytes;
  arrival.lent = std::move(lent);
  if (message.kind == PushKind::kCopyFailed) arrival.failure = decode_failure(message.payload);
  if (message.kind == PushKind::kInline && !message.dead) {
    arrival.tensor =
        own_tensor(message.dtype, message.shape, message.payload.data(), message.payload.size());
  } else if (message.kind == PushKind::kSerialized) {
    arrival.serialized = std::string(message.payload);
  }
  arrivals_.deliver(step, message.key, std::move(arrival));
  return mind_backlog(peer);
}

absl::Status PushReceiver::take_landed(const std::shared_ptr<PeerProcess>& peer,
                                       const fw_landing& landing) {
  Landed landed(landing.landed);
  PushMessage message;
  const std::string_view description(static_cast<const char*>(landing.description),
                                     landing.description_bytes);
  if (!decode(description, &message) || message.kind != PushKind::kLanded ||
      message.tensor_bytes != landing.bytes) {
    // A caller waits for this tensor, and there is no telling who.
    return absl::InvalidArgumentError("it wrote a tensor with a malformed description");
  }
  ArrivedTensor arrival;
  auto* const buffer = new LandedBuffer(std::move(landed), landing.data, landing.bytes);
  arrival.tensor = tf::Tensor(message.dtype, message.shape, buffer);
  buffer->Unref();                   // the tensor has its own reference
  arrival.kind = PushKind::kInline;  // it is here, like an inline one
  arrival.way = "landed";
  arrival.sent = message.sent;
  arrival.sender = message.sender;
  arrival.start = message.start;
  arrival.dtype = message.dtype;
  arrival.shape = message.shape;
  arrival.tensor_bytes = message.tensor_bytes;
  arrival.peer = peer.get();
  count(stats().landed);
  const std::string key = join_key({landing.edge, landing.edge_bytes}, message.key);
  arrivals_.deliver({message.receiver, message.step}, key, std::move(arrival));
  return absl::OkStatus();
}

void PushReceiver::peer_ended(const std::shared_ptr<PeerProcess>& peer, const absl::Status& why) {
  if (ArenaAllocator::traced()) StagedCopies::of_process().peer_ended();
  arrivals_.peer_ended(peer.get(), why);
}

void PushReceiver::resume(const std::shared_ptr<PeerProcess>& peer) {
  Backlog& backlog = *peer->backlog();
  if (backlog.bytes() > Backlog::kResume || !backlog.holding() || !backlog.set_holding(false)) {
    return;
  }
  PushMessage message;
  message.kind = PushKind::kResume;
  peer->schedule([peer, text = encode(message)] {
    if (!peer->send(text).ok()) peer->backlog()->set_holding(true);  // later
  });
}

bool serialized(const ArrivedTensor& arrival) {
  return arrival.kind == PushKind::kSerialized || arrival.kind == PushKind::kSerializedLent;
}

bool ready(const ArrivedTensor& arrival) {
  return arrival.lent == nullptr || fw_remote_ready(arrival.lent.get()) != 0;
}

absl::Status look(const ArrivedTensor& arrival, const void** data) {
  return map(arrival.lent, arrival.tensor_bytes, data);
}

absl::Status wait_until_ready(const ArrivedTensor& arrival, const std::function<bool()>& given_up) {
  const void* data = nullptr;
  absl::Status mapped;
  do {
    if (given_up()) return absl::CancelledError("Farwrite: a peer's lent tensor is not wanted");
    mapped = map(arrival.lent, arrival.tensor_bytes, &data, kTurnNs);
  } while (absl::IsDeadlineExceeded(mapped));
  return mapped;
}

absl::Status materialize(ArrivedTensor arrival, tf::Tensor* tensor) {
  if (arrival.dead) return absl::OkStatus();
  switch (arrival.kind) {
    case PushKind::kInline:
      *tensor = std::move(arrival.tensor);
      return absl::OkStatus();
    case PushKind::kAlias: {
      const void* data = nullptr;
      const absl::Status mapped = map(arrival.lent, arrival.tensor_bytes, &data);
      if (!mapped.ok()) return mapped;
      if (reinterpret_cast<std::uintptr_t>(data) % tf::Allocator::kAllocatorAlignment != 0) {
        return absl::InternalError(
            "Farwrite: a peer lent a tensor whose address is not a multiple of 64");
      }
      auto* const buffer = new LentBuffer(std::move(arrival.lent), data, arrival.tensor_bytes);
      *tensor = tf::Tensor(arrival.dtype, arrival.shape, buffer);
      buffer->Unref();  // the tensor has its own reference
      return absl::OkStatus();
    }
    case PushKind::kSerialized:
    case PushKind::kSerializedLent: {
      tf::TensorProto proto;
      const absl::Status parsed = parse(arrival, &proto);
      if (!parsed.ok()) return parsed;
      return tensor->FromProto(proto) ? absl::OkStatus() : cannot_parse();
    }
    default:
      break;
  }
  return absl::InternalError("Farwrite: this arrival carries no tensor");
}

absl::Status materialize_on(tf::Device* device, const tf::AllocatorAttributes& attributes,
                            const ArrivedTensor& arrival, tf::Tensor* tensor) {
  tf::TensorProto proto;
  if (serialized(arrival)) {
    const absl::Status parsed = parse(arrival, &proto);
    if (!parsed.ok()) return parsed;
  } else {
    arrival.tensor.AsProtoTensorContent(&proto);
  }
  return device->MakeTensorFromProto(proto, attributes, tensor);
}

std::int64_t held_views() { return views.load(std::memory_order_relaxed); }

}  // namespace farwrite::plugin
