#include "tensor/push.h"

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/options.h"
#include "edges/edges.h"
#include "farwrite/c_api.h"
#include "memory/arena_allocator.h"
#include "memory/received_buffer.h"
#include "memory/staging.h"
#include "stats/stats.h"
#include "stats/transfer_log.h"
#include "tensor/push_message.h"
#include "tensor/staged_copies.h"
#include "tensorflow/core/framework/tensor.pb.h"
#include "tensorflow/core/platform/logging.h"

namespace farwrite::plugin {
namespace {

namespace tf = ::tensorflow;

// The alignment a kernel may rely on (EIGEN_MAX_ALIGN_BYTES). A tensor that came over RPC has it;
// a slice that is sent as it lies may not.
constexpr std::uintptr_t kAlignment = 64;

bool aligned(const void* data) { return reinterpret_cast<std::uintptr_t>(data) % kAlignment == 0; }

std::atomic<std::uint64_t>& counter_of(Way way) {
  switch (way) {
    case Way::kInline:
      return stats().pushes_inline;
    case Way::kZeroCopy:
      return stats().zero_copy_tensors;
    case Way::kStagedForeign:
      return stats().staged_foreign_memory;
    case Way::kStagedReceived:
      return stats().staged_received;
    case Way::kStagedUnaligned:
      return stats().staged_unaligned;
    case Way::kSnapshot:
      return stats().snapshot_tensors;
    case Way::kSerialized:
      return stats().pushes_serialized;
    case Way::kLanded:
      return stats().pushes_landed;
    case Way::kLoopback:
      return stats().pushes_loopback;
    case Way::kLentAgain:
      return stats().staged_lent_again;
    case Way::kStagedDevice:
      return stats().staged_device_sends;
    case Way::kPull:
    case Way::kCount:
      break;
  }
  return stats().pushes_pull;
}

// A ref variable's value changes under the thread that looks at it later.
tf::Tensor snapshot(const tf::Tensor& tensor) {
  count(stats().snapshot_tensors);
  count(stats().copies);
  count(stats().bytes_copied, tensor.TotalBytes());
  tf::Tensor copy(tf::cpu_allocator(), tensor.dtype(), tensor.shape());
  if (tensor.TotalBytes() > 0) fw_copy(copy.data(), tensor.data(), tensor.TotalBytes());
  return copy;
}

class Push {
 public:
  Push(fw_device* device, ArrivalTable& arrivals, const Route& route,
       const OutgoingTensor& outgoing, const std::function<void()>& keep)
      : device_(device),
        arrivals_(arrivals),
        route_(route),
        outgoing_(outgoing),
        keep_(keep),
        edge_(Edges::of_process().find(outgoing.key)),
        started_(outgoing.origin == Origin::kStaged ? outgoing.started
                                                    : TransferLog::of_process().start()),
        transfer_(Transfer::Kind::kSendTensor, outgoing.step, outgoing.key, started_) {
    message_.sent = started_;
    message_.receiver = route.server();
    message_.sender = outgoing.sender;
    message_.step = outgoing.step;
    message_.start = outgoing.start;
    message_.dtype = outgoing.tensor.dtype();
    message_.key = {outgoing.key.FullKey().data(), outgoing.key.FullKey().size()};
  }

  absl::Status run() {
    const absl::Status status = pushed();
    if (status.ok()) return status;
    if (message_.kind != PushKind::kPull) keep_();
    count(stats().dropped_dead_peer);
    const PeerProcess* const process = route_.reach().process.get();
    return process != nullptr && process->ended() ? absl::OkStatus() : status;
  }

 private:
  absl::Status pushed() {
    const tf::Tensor& tensor = outgoing_.tensor;
    if (!outgoing_.failure.ok()) return failed();
    const bool held = !loopback() && route_.reach().process->held();
    if (held || outgoing_.origin == Origin::kDeviceHeld) {
      return pull(stats().pulls_backlog);
    }
    if (outgoing_.dead) {
      message_.dead = true;
      absl::Status told = small({});
      if (told.ok()) count(stats().pushes_dead);
      return told;
    }
    if (outgoing_.origin == Origin::kDeviceNoRoom) {
      return pull(stats().pulls_no_memory);
    }
    if (loopback()) return hand_over();
    if (!tf::DataTypeCanUseMemcpy(tensor.dtype())) return serialized();

    message_.shape = tensor.shape();
    message_.tensor_bytes = tensor.TotalBytes();
    const auto* const data = static_cast<const char*>(tensor.data());
    if (message_.tensor_bytes <= ArenaAllocator::kThreshold) {
      return small({data, message_.tensor_bytes});
    }
    const EdgeFacts facts = this->facts();
    if (options().landing && !route_.reach().process->maps()) {
      absl::Status status;
      if (land(facts, data, &status)) {
        if (ArenaAllocator::traced()) StagedCopies::of_process().not_needed(*edge_, message_.step);
        return status;
      }
    }
    if (facts.ref) return staged(data, message_.tensor_bytes, Way::kSnapshot);
    if (fw_device_contains(device_, data) == 0) return foreign(data);
    if (ArenaAllocator::traced()) StagedCopies::of_process().not_needed(*edge_, message_.step);
    if (!aligned(data)) return staged(data, message_.tensor_bytes, Way::kStagedUnaligned);
    auto lent = std::make_unique<LentTensor>();
    lent->tensor = tensor;
    lent->variable = facts.variable;
    return lend(data, message_.tensor_bytes, std::move(lent), Way::kZeroCopy);
  }

  // What the graph says of the memory that is sent: nothing of a copy that nothing else has.
  EdgeFacts facts() const {
    return outgoing_.origin == Origin::kStaged ? EdgeFacts() : edge_->facts();
  }

  void went(Way way, std::uint64_t bytes) {
    if (outgoing_.origin == Origin::kStaged && way != Way::kPull) {
      // That it was copied is what matters of an edge; its form is counted beside that.
      if (way != Way::kZeroCopy) count(counter_of(way));
      way = Way::kStagedDevice;
    }
    count(counter_of(way));
    edge_->went(way, outgoing_.tensor.dtype(), outgoing_.tensor.shape(), bytes);
    // A view of the peer's own string: a conditional that mixes it with a literal makes a
    // temporary.
    std::string_view fabric;
    if (!loopback()) fabric = route_.reach().process->fabric();
    transfer_.went(name_of(way), fabric, bytes);
  }

  bool loopback() const { return route_.reach().loopback; }

  absl::Status deliver(ArrivedTensor arrival) {
    arrival.sender = outgoing_.sender;
    arrival.way = name_of(Way::kLoopback);
    arrival.sent = message_.sent;
    arrival.start = outgoing_.start;
    arrivals_.deliver({message_.receiver, message_.step}, message_.key, std::move(arrival));
    return absl::OkStatus();
  }

  // To another server of this process: the tensor itself, which is never written while shared.
  absl::Status hand_over() {
    const tf::Tensor& tensor = outgoing_.tensor;
    ArrivedTensor arrival;
    arrival.tensor = tensor;
    if (facts().ref && tf::DataTypeCanUseMemcpy(tensor.dtype())) {
      arrival.tensor = snapshot(tensor);
    }
    went(Way::kLoopback, tensor.TotalBytes());
    return deliver(std::move(arrival));
  }

  absl::Status small(std::string_view payload) {
    message_.payload = payload;
    if (loopback()) {
      went(Way::kInline, payload.size());
      ArrivedTensor dead;
      dead.dead = true;
      return deliver(std::move(dead));
    }
    return send(Way::kInline, payload.size());
  }

  // Writes the tensor into memory that the receiver has prepared, if it has. Any memory of this
  // process can be written from, so nothing is staged.
  bool land(const EdgeFacts& facts, const char* data, absl::Status* status) {
    PeerProcess& process = *route_.reach().process;
    const std::uint64_t bytes = message_.tensor_bytes;
    PushMessage description = message_;
    description.kind = PushKind::kLanded;
    const std::string instance = split_key(message_.key).instance;
    description.key = instance;
    bool landed = false;
    if (!facts.ref) {
      *status =
          process.land(edge_->name(), encode(description), data, bytes, outgoing_.tensor, &landed);
    } else if (process.has_slot(edge_->name(), bytes)) {
      const tf::Tensor copy = snapshot(outgoing_.tensor);
      *status = process.land(edge_->name(), encode(description), copy.data(), bytes, copy, &landed);
    }
    if (!status->ok()) return process.ended();  // else offer it
    if (!landed) {
      message_.wants_slot = edge_->repeats(bytes);
      if (message_.wants_slot) count(stats().offers_without_slot);
      return false;
    }
    went(Way::kLanded, bytes);
    count(stats().bytes_pushed, bytes);
    return true;
  }

  absl::Status serialized() {
    tf::TensorProto proto;
    outgoing_.tensor.AsProtoTensorContent(&proto);
    std::string bytes;
    if (!proto.SerializeToString(&bytes)) {  // over 2 GB
      return pull(stats().pulls_no_memory);
    }
    message_.proto = true;
    message_.tensor_bytes = bytes.size();
    if (bytes.size() > ArenaAllocator::kThreshold) {
      return staged(bytes.data(), bytes.size(), Way::kSerialized);
    }
    message_.payload = bytes;
    return send(Way::kSerialized, bytes.size());
  }

  // All inside the message.
  absl::Status send(Way way, std::uint64_t bytes) {
    absl::Status status = route_.reach().process->send(encode(message_));
    if (!status.ok()) return status;
    went(way, bytes);
    count(stats().bytes_pushed, bytes);
    return status;
  }

  // What was allocated outside registered memory.
  absl::Status foreign(const char* data) {
    const std::uint64_t bytes = message_.tensor_bytes;
    if (ReceivedBuffer* const received = ReceivedBuffer::of(outgoing_.tensor)) {
      return sent_on(*received, data);
    }
    if (!ArenaAllocator::traced()) {
      edge_->explain("staged: allocated outside registered memory: " +
                     ArenaAllocator::why_outside());
      return staged(data, bytes, Way::kStagedForeign);
    }
    const StagedCopies::ForeignTensor sent{edge_, route_.reach().process, outgoing_.tensor,
                                           message_.step, device_};
    bool hold = false;
    Staged again = StagedCopies::of_process().find(sent, &hold);
    if (again != nullptr) return lend_copy(std::move(again), bytes, Way::kLentAgain);
    return staged(data, bytes, Way::kStagedForeign, hold ? &sent : nullptr);
  }

  // What another task has sent here: all edges and steps lend one copy.
  absl::Status sent_on(ReceivedBuffer& received, const char* data) {
    if (ArenaAllocator::traced()) StagedCopies::of_process().not_needed(*edge_, message_.step);
    bool made = false;
    // Where no graph told this process about the edge, the producer may be a ref variable.
    Staged copy = received.copy(device_, data, message_.tensor_bytes, !edge_->in_graph(), &made);
    edge_->explain(
        "staged once: received from another task, and sent on; all edges share the copy");
    const Way way = made ? Way::kStagedReceived : Way::kLentAgain;
    return lend_copy(std::move(copy), message_.tensor_bytes, way);
  }

  // Copies into registered memory and lends the copy. `why` it was copied. `hold`: for later, too.
  absl::Status staged(const char* data, std::uint64_t bytes, Way why,
                      const StagedCopies::ForeignTensor* hold = nullptr) {
    Staged copy = stage(device_, data, bytes);
    if (copy != nullptr && hold != nullptr) {
      copy = StagedCopies::of_process().hold(*hold, std::move(copy));
    }
    return lend_copy(std::move(copy), bytes, why);
  }

  // Null: there was no room for one.
  absl::Status lend_copy(Staged copy, std::uint64_t bytes, Way how) {
    if (copy == nullptr) {
      return pull(stats().pulls_no_memory);
    }
    auto lent = std::make_unique<LentTensor>();
    lent->copy = std::move(copy);
    const void* const memory = lent->copy.get();
    return lend(memory, bytes, std::move(lent), how);
  }

  absl::Status lend(const void* data, std::uint64_t bytes, std::unique_ptr<LentTensor> lent,
                    Way how) {
    PeerProcess& process = *route_.reach().process;
    message_.lent = true;
    const absl::Status status = process.lend(encode(message_), data, bytes, std::move(lent));
    if (status.ok()) {
      went(how, bytes);
      if (!message_.proto) count(stats().pushes_alias);
      count(stats().bytes_pushed, bytes);
      return status;
    }
    // Over what one peer may hold: it asks, later.
    if (absl::IsResourceExhausted(status) && !process.ended()) {
      VLOG(1) << "Farwrite: " << status.message();
      return pull(stats().pulls_no_memory);
    }
    return status;
  }

  absl::Status failed() {
    const std::string why = encode_failure(outgoing_.failure);
    message_.kind = PushKind::kCopyFailed;
    message_.payload = why;
    if (!loopback()) return route_.reach().process->send(encode(message_));
    ArrivedTensor failed;
    failed.kind = PushKind::kCopyFailed;
    failed.failure = outgoing_.failure;
    return deliver(std::move(failed));
  }

  // The receiver is told to ask. `why`: the counter of the reason.
  absl::Status pull(std::atomic<std::uint64_t>& why) {
    message_.kind = PushKind::kPull;
    message_.proto = false;
    message_.lent = false;
    message_.payload = {};
    message_.tensor_bytes = 0;
    message_.shape = tf::TensorShape();
    keep_();
    absl::Status told;
    if (loopback()) {
      ArrivedTensor asked;
      asked.kind = PushKind::kPull;
      told = deliver(std::move(asked));
    } else {
      told = route_.reach().process->send(encode(message_));
    }
    if (!told.ok()) return told;
    count(why);
    went(Way::kPull, outgoing_.tensor.TotalBytes());
    return told;
  }

  fw_device* const device_;
  ArrivalTable& arrivals_;
  const Route& route_;
  const OutgoingTensor& outgoing_;
  const std::function<void()>& keep_;  // as push() has it
  const std::shared_ptr<Edge> edge_;
  const std::int64_t started_;
  Transfer transfer_;
  PushMessage message_;
};

}  // namespace

absl::Status push(fw_device* device, ArrivalTable& arrivals, const Route& route,
                  const OutgoingTensor& outgoing, const std::function<void()>& keep) {
  return Push(device, arrivals, route, outgoing, keep).run();
}

void push_step_gone(ArrivalTable& arrivals, const Route& route, std::uint64_t sender,
                    std::int64_t step, std::uint64_t start) {
  if (route.outcome() != Route::State::kPush) return;
  PushMessage message;
  message.kind = PushKind::kStepGone;
  message.receiver = route.server();
  message.sender = sender;
  message.step = step;
  message.start = start;
  if (route.reach().loopback) {
    arrivals.sender_dropped({message.receiver, step}, sender, start);
    return;
  }
  route.reach().process->send_later(encode(message));
}

}  // namespace farwrite::plugin
