// A channel's transfers from and to the memory of a GPU.
//
// Where the fabric maps the peer's memory, the GPU copies straight into or out of it. Elsewhere the
// bytes pass through send memory: one copy by the GPU, and the transfer of the host's memory.
#include <utility>

#include "core/inside.h"
#include "device/channel_state.h"
#include "device/device_state.h"
#include "farwrite/memory_kind.h"
#include "gpu/copy_thread.h"
#include "gpu/gpu_copy.h"
#include "gpu/gpu_counters.h"

namespace farwrite::device {

Status ChannelState::find_gpu(fabric::Operation& operation) const {
  const bool reads = operation.kind == fabric::OperationKind::kRead;
  const ByteView local = reads ? ByteView(operation.destination) : operation.source;
  const gpu::Gpu* own = nullptr;
  if (local.size > 0 && !device_->contains(local.data)) {
    auto found = gpu::gpu_of(local.data);
    if (!found.ok()) return found.status();
    own = *found;
  }
  const gpu::Gpu* const peers = operation.window->gpu;
  FARWRITE_RETURN_IF_ERROR(gpu::check_one_gpu(own, peers, name_of(operation)));
  operation.gpu = own != nullptr ? own : peers;
  if (operation.gpu != nullptr && own == nullptr) device_->pin(*operation.gpu, local.data);
  return Status();
}

Completion ChannelState::post_staged(std::uint32_t lane, fabric::Operation operation) {
  const gpu::Gpu& gpu = *std::exchange(operation.gpu, nullptr);
  const bool reads = operation.kind == fabric::OperationKind::kRead;
  const std::uint64_t bytes = reads ? operation.destination.size : operation.source.size;
  const Result<std::byte*> room = device_->allocate_raw(bytes);
  if (!room.ok()) {
    return Completion(Status::error(
        room.status().code(), {name_of(operation), peer_name_},
        "no memory for " + std::to_string(bytes) +
            " bytes on their way between the GPU and the network: " + room.status().message(),
        "or transfer less at a time"));
  }
  std::byte* const staging = room.value();
  device_->pin(gpu, staging);
  const auto free = [device = device_, staging] { device->free_raw(staging); };
  if (!reads) {
    if (Status bad = gpu::copy(gpu, staging, operation.source.data, bytes, name_of(operation));
        !bad.ok()) {
      free();
      return Completion(std::move(bad));
    }
    gpu::counters().staged_bytes.add(bytes);
    operation.source = {staging, bytes};
    Completion completion = operations_.post(lane, operation);
    completion.on_settled([free](const Status&) { free(); });
    return completion;
  }
  std::byte* const destination = operation.destination.data;
  operation.destination = {staging, bytes};
  const Completion read = operations_.post(lane, operation);
  const auto outcome = std::make_shared<core::CompletionState>();
  // The peer's end ends the wait at once; its memory is free when nothing moves any more.
  read.on_done([outcome](const Status& status) {
    if (!status.ok()) outcome->abandon(status);
  });
  read.on_settled([&gpu, self = shared_from_this(), free, outcome, destination, staging,
                   bytes](const Status& status) {
    // close() waits for it.
    auto under_way = std::make_shared<core::Gate::Pass>(self->gate_);
    if (!status.ok() || !*under_way) {
      free();
      outcome->finish(status.ok() ? self->unusable("read") : status);
      return;
    }
    const auto copy = [&gpu, self, under_way, free, outcome, destination, staging, bytes] {
      Status copied = gpu::copy(gpu, destination, staging, bytes, "read");
      if (copied.ok()) gpu::counters().staged_bytes.add(bytes);
      free();
      const core::Inside inside(self.get());
      outcome->finish(std::move(copied));
    };
    const Status begun = gpu::CopyThread::get().run(copy);
    if (begun.ok()) return;
    free();
    outcome->finish(begun);
  });
  return Completion(outcome);
}

}  // namespace farwrite::device
