// The driver's functions of streams.
#include "double.h"
#include "entry.h"

namespace farwrite::cuda_double {
namespace {

// Runs body(stream, lock) if there is such a stream and its context can be used.
template <class Body>
CUresult with_stream(const char* function, CUstream handle, Body body) {
  return enter_context(function, [&](Double& all, Context& current, Lock& lock) {
    const auto stream = find_stream(all, handle, current);
    if (stream == nullptr) return kInvalidHandle;
    if (stream->context.retained == 0) return kContextIsDestroyed;
    if (stream->context.sticky != kSuccess) return stream->context.sticky;
    return body(all, stream, lock);
  });
}

// Of the legacy stream, all that it would wait for; of others, their own.
std::vector<std::shared_ptr<Work>> pending(const Stream& stream) {
  if (&stream == stream.context.legacy.get()) return work_before(stream);
  if (stream.last == nullptr || stream.last->done) return {};
  return {stream.last};
}

}  // namespace

CUresult cuStreamCreate(CUstream* stream, unsigned flags) {
  return enter_context("cuStreamCreate", [&](Double& all, Context& current, Lock&) {
    if (stream == nullptr || flags > kStreamNonBlocking) return kInvalidValue;
    auto made = make_stream(current, flags != kStreamNonBlocking);
    *stream = made.get();
    all.streams.emplace(made.get(), std::move(made));
    return kSuccess;
  });
}

// Returns at once. Pending work goes on, and the stream ends after it.
CUresult cuStreamDestroy_v2(CUstream stream) {
  return enter_release("cuStreamDestroy_v2", [&](Double& all, Context&, Lock&) {
    return all.streams.erase(stream) == 1 ? kSuccess : kInvalidHandle;
  });
}

CUresult cuStreamQuery(CUstream stream) {
  return with_stream("cuStreamQuery", stream, [&](Double&, const auto& found, Lock&) {
    return pending(*found).empty() ? kSuccess : kNotReady;
  });
}

CUresult cuStreamSynchronize(CUstream stream) {
  return with_stream("cuStreamSynchronize", stream,
                     [&](Double& all, const auto& found, Lock& lock) {
                       all.engine.wait_for(lock, pending(*found));
                       return found->context.sticky;
                     });
}

CUresult cuCtxSynchronize() {
  return enter_context("cuCtxSynchronize", [&](Double& all, Context& current, Lock& lock) {
    all.engine.wait_for(lock, current);
    return current.sticky;
  });
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
  return with_stream("cuStreamWaitEvent", stream, [&](Double& all, const auto& found, Lock&) {
    const auto at = all.events.find(event);
    if (at == all.events.end()) return kInvalidHandle;
    if (flags != 0) return kInvalidValue;
    const std::shared_ptr<Work>& recorded = at->second->recorded;
    if (recorded == nullptr || recorded->done) return kSuccess;
    const auto wait = std::make_shared<Work>(found->context);
    wait->after.push_back(recorded);
    submit(all, found, wait);
    return kSuccess;
  });
}

}  // namespace farwrite::cuda_double
