#include "device/operation_trace.h"

#include "core/trace.h"

namespace farwrite::device {

void trace_operation(const TracedOperation& operation, const std::string& peer, FabricKind fabric,
                     const Completion& completion) {
  const core::TraceKind kind =
      completion.done() ? core::TraceKind::kCall : core::TraceKind::kInFlight;
  completion.on_done([operation, peer, fabric, kind](const Status& status) {
    core::trace({operation.name, to_string(fabric), peer, operation.posted_ns, core::monotonic_ns(),
                 operation.bytes, operation.lane, operation.tag, kind, !status.ok()});
  });
}

}  // namespace farwrite::device
