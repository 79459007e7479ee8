#include "push.h"

#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "arena_allocator.h"
#include "farwrite/c_api.h"
#include "push_message.h"
#include "runtime.h"
#include "stats.h"
#include "tensorflow/core/framework/tensor.pb.h"
#include "tensorflow/core/platform/logging.h"

namespace farwrite::plugin {
namespace {

namespace tf = ::tensorflow;

// The alignment a kernel may rely on (EIGEN_MAX_ALIGN_BYTES). A tensor that came by RPC has it;
// a slice that is sent as it lies may not.
constexpr std::uintptr_t kAlignment = 64;

bool aligned(const void* data) { return reinterpret_cast<std::uintptr_t>(data) % kAlignment == 0; }

class Push {
 public:
  Push(Runtime& runtime, const Route& route, const Outgoing& outgoing)
      : runtime_(runtime), route_(route), outgoing_(outgoing) {
    message_.dead = outgoing.dead;
    message_.receiver = route.server();
    message_.sender = outgoing.sender;
    message_.step = outgoing.step;
    message_.dtype = outgoing.tensor.dtype();
    message_.key = {outgoing.key.FullKey().data(), outgoing.key.FullKey().size()};
  }

  Pushed run(const std::function<void()>& keep) {
    const tf::Tensor& tensor = outgoing_.tensor;
    if (outgoing_.dead) {
      count(stats().pushes_dead);
      return small({});
    }
    if (!outgoing_.host_memory) {
      count(stats().pulls_device_memory);
      return pull(keep);
    }
    if (route_.reach().loopback) return loopback();
    if (!tf::DataTypeCanUseMemcpy(tensor.dtype())) return serialized(keep);

    message_.shape = tensor.shape();
    message_.tensor_bytes = tensor.TotalBytes();
    const auto* const data = static_cast<const char*>(tensor.data());
    if (message_.tensor_bytes <= ArenaAllocator::kThreshold) {
      return small({data, message_.tensor_bytes});
    }
    const EdgeFacts facts = facts_of(outgoing_.key);
    message_.kind = PushKind::kAlias;
    if (facts.ref) {
      count(stats().snapshot_tensors);
      return staged(data, message_.tensor_bytes, keep);
    }
    const bool registered = fw_device_contains(runtime_.device(), data) != 0;
    if (!registered || !aligned(data)) {
      count(stats().staged_tensors);
      count(registered ? stats().staged_unaligned : stats().staged_foreign_memory);
      return staged(data, message_.tensor_bytes, keep);
    }
    auto lent = std::make_unique<Lent>();
    lent->tensor = tensor;
    lent->variable = facts.variable;
    const Pushed pushed = lend(data, message_.tensor_bytes, std::move(lent), keep);
    if (pushed == Pushed::kYes) {
      count(stats().pushes_alias);
      count(stats().zero_copy_tensors);
    }
    return pushed;
  }

 private:
  // To another server of this process: the tensor itself, which is never written while shared.
  Pushed loopback() {
    Arrival arrival;
    arrival.sender = outgoing_.sender;
    arrival.tensor = outgoing_.tensor;
    if (facts_of(outgoing_.key).ref) {
      count(stats().snapshot_tensors);
      count(stats().copies);
      arrival.tensor =
          tf::Tensor(tf::cpu_allocator(), outgoing_.tensor.dtype(), outgoing_.tensor.shape());
      if (outgoing_.tensor.TotalBytes() > 0) {
        std::memcpy(arrival.tensor.data(), outgoing_.tensor.data(), outgoing_.tensor.TotalBytes());
      }
    }
    count(stats().pushes_loopback);
    runtime_.mailbox().deliver({message_.receiver, message_.step}, message_.key,
                               std::move(arrival));
    return Pushed::kYes;
  }

  Pushed small(std::string_view payload) {
    message_.kind = PushKind::kInline;
    message_.payload = payload;
    count(stats().pushes_inline);
    count(stats().bytes_pushed, payload.size());
    if (route_.reach().loopback) {
      Arrival arrival;  // a dead tensor
      arrival.dead = true;
      arrival.sender = outgoing_.sender;
      runtime_.mailbox().deliver({message_.receiver, message_.step}, message_.key,
                                 std::move(arrival));
      return Pushed::kYes;
    }
    return sent(route_.reach().process->send(encode(message_)));
  }

  Pushed serialized(const std::function<void()>& keep) {
    tf::TensorProto proto;
    outgoing_.tensor.AsProtoTensorContent(&proto);
    std::string bytes;
    if (!proto.SerializeToString(&bytes)) {  // over 2 GB
      count(stats().pulls_no_memory);
      return pull(keep);
    }
    count(stats().pushes_serialized);
    count(stats().bytes_pushed, bytes.size());
    message_.tensor_bytes = bytes.size();
    if (bytes.size() <= ArenaAllocator::kThreshold) {
      message_.kind = PushKind::kSerialized;
      message_.payload = bytes;
      return sent(route_.reach().process->send(encode(message_)));
    }
    message_.kind = PushKind::kSerializedLent;
    return staged(bytes.data(), bytes.size(), keep);
  }

  // Copies into registered memory and lends the copy.
  Pushed staged(const char* data, std::uint64_t bytes, const std::function<void()>& keep) {
    auto lent = std::make_unique<Lent>();
    lent->device = runtime_.device();
    lent->staging = fw_device_allocate(lent->device, bytes);
    if (lent->staging == nullptr) {
      count(stats().pulls_no_memory);
      return pull(keep);
    }
    std::memcpy(lent->staging, data, bytes);
    count(stats().copies);
    count(stats().bytes_copied, bytes);
    const void* const staging = lent->staging;
    const Pushed pushed = lend(staging, bytes, std::move(lent), keep);
    if (pushed == Pushed::kYes && message_.kind == PushKind::kAlias) count(stats().pushes_alias);
    return pushed;
  }

  Pushed lend(const void* data, std::uint64_t bytes, std::unique_ptr<Lent> lent,
              const std::function<void()>& keep) {
    PeerProcess& process = *route_.reach().process;
    const FwStatus status = process.lend(encode(message_), data, bytes, std::move(lent));
    if (status == nullptr) {
      if (message_.kind == PushKind::kAlias) count(stats().bytes_pushed, bytes);
      return Pushed::kYes;
    }
    if (process.ended()) return gone(status);
    // The peer holds all that it may, or the ring's memory has run out: it asks, later.
    VLOG(1) << "Farwrite: " << message_of(status);
    count(stats().pulls_no_memory);
    return pull(keep);
  }

  Pushed pull(const std::function<void()>& keep) {
    message_.kind = PushKind::kPull;
    message_.payload = {};
    count(stats().pushes_pull);
    keep();
    if (route_.reach().loopback) {
      Arrival arrival;
      arrival.kind = PushKind::kPull;
      arrival.sender = outgoing_.sender;
      runtime_.mailbox().deliver({message_.receiver, message_.step}, message_.key,
                                 std::move(arrival));
      return Pushed::kPull;
    }
    (void)sent(route_.reach().process->send(encode(message_)));
    return Pushed::kPull;
  }

  Pushed sent(const FwStatus& status) { return status == nullptr ? Pushed::kYes : gone(status); }

  // As stock: the tensor of a step whose receiver died stays here, and the step is aborted.
  Pushed gone(const FwStatus& status) {
    count(stats().dropped_dead_peer);
    if (!route_.reach().process->ended()) {
      LOG(WARNING) << "Farwrite: a push failed: " << message_of(status);
    }
    return Pushed::kYes;
  }

  Runtime& runtime_;
  const Route& route_;
  const Outgoing& outgoing_;
  PushMessage message_;
};

}  // namespace

Pushed push(Runtime& runtime, const Route& route, const Outgoing& outgoing,
            const std::function<void()>& keep) {
  return Push(runtime, route, outgoing).run(keep);
}

void push_step_gone(const Route& route, std::uint64_t sender, std::int64_t step) {
  if (route.outcome() != Route::State::kPush) return;
  PushMessage message;
  message.kind = PushKind::kStepGone;
  message.receiver = route.server();
  message.sender = sender;
  message.step = step;
  if (route.reach().loopback) {
    Runtime::current()->mailbox().sender_dropped({message.receiver, step}, sender);
    return;
  }
  const FwStatus status = route.reach().process->send(encode(message));
  if (status != nullptr) VLOG(1) << "Farwrite: " << message_of(status);
}

}  // namespace farwrite::plugin
