#include "tensor/receive.h"

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

const char* way_of(const PushMessage& message) {
  if (message.proto) return "serialized";
  return message.lent ? "alias" : "inline";
}

tf::Tensor own_tensor(tf::DataType dtype, const tf::TensorShape& shape, std::string_view bytes) {
  tf::Tensor tensor(tf::cpu_allocator(), dtype, shape);
  if (!bytes.empty()) std::memcpy(tensor.data(), bytes.data(), bytes.size());
  return tensor;
}

absl::Status cannot_parse() {
  return absl::InternalError("Farwrite: a peer pushed a tensor that cannot be parsed");
}

absl::Status parse(const ArrivedTensor& arrival, tf::TensorProto* proto) {
  const void* data = arrival.proto.data();
  if (arrival.lent) {
    const absl::Status seen = arrival.lent.look(&data);
    if (!seen.ok()) return seen;
  }
  const std::uint64_t bytes = arrival.tensor_bytes;
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

absl::Status PushReceiver::take(const std::shared_ptr<PeerProcess>& peer, std::string_view bytes,
                                RemoteBytes lent) {
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
  if (message.lent && (!lent || lent.size() != message.tensor_bytes)) {
    return absl::InvalidArgumentError("it lent " + std::to_string(lent.size()) +
                                      " bytes for a tensor of " +
                                      std::to_string(message.tensor_bytes));
  }
  if (message.wants_slot && message.lent && !message.proto) {
    peer->want_slots(split_key(message.key).name, message.tensor_bytes);
  }
  ArrivedTensor arrival;
  arrival.kind = message.kind;
  arrival.way = way_of(message);
  arrival.sent = message.sent;
  arrival.dead = message.dead;
  arrival.sender = message.sender;
  arrival.start = message.start;
  arrival.peer = peer.get();
  arrival.backlog = peer->backlog();
  arrival.dtype = message.dtype;
  arrival.shape = message.shape;
  arrival.tensor_bytes = message.tensor_bytes;
  arrival.is_proto = message.proto;
  (message.lent ? arrival.lent : arrival.receipt) = std::move(lent);
  if (message.kind == PushKind::kCopyFailed) arrival.failure = decode_failure(message.payload);
  if (message.kind == PushKind::kTensor && !message.lent && !message.dead) {
    if (message.proto) {
      arrival.proto = std::string(message.payload);
    } else {
      arrival.tensor = own_tensor(message.dtype, message.shape, message.payload);
    }
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
  buffer->Unref();  // the tensor has its own reference
  arrival.kind = PushKind::kLanded;
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

absl::Status materialize(ArrivedTensor arrival, tf::Tensor* tensor) {
  if (arrival.dead) return absl::OkStatus();
  if (arrival.kind != PushKind::kTensor && arrival.kind != PushKind::kLanded) {
    return absl::InternalError("Farwrite: this arrival carries no tensor");
  }
  if (arrival.is_proto) {
    tf::TensorProto proto;
    const absl::Status parsed = parse(arrival, &proto);
    if (!parsed.ok()) return parsed;
    return tensor->FromProto(proto) ? absl::OkStatus() : cannot_parse();
  }
  if (arrival.lent) {
    return tensor_over(std::move(arrival.lent), arrival.dtype, arrival.shape, tensor);
  }
  *tensor = std::move(arrival.tensor);
  return absl::OkStatus();
}

absl::Status materialize_on(tf::Device* device, const tf::AllocatorAttributes& attributes,
                            const ArrivedTensor& arrival, tf::Tensor* tensor) {
  tf::TensorProto proto;
  if (arrival.is_proto) {
    const absl::Status parsed = parse(arrival, &proto);
    if (!parsed.ok()) return parsed;
  } else {
    arrival.tensor.AsProtoTensorContent(&proto);
  }
  return device->MakeTensorFromProto(proto, attributes, tensor);
}

}  // namespace farwrite::plugin
