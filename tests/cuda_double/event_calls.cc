// The driver's functions of events.
#include "double.h"
#include "entry.h"

namespace farwrite::cuda_double {
namespace {

// Runs body(event, lock) if there is such an event and its context can be used. The event may be
// destroyed when `lock` is let go.
template <class Body>
CUresult with_event(const char* function, CUevent handle, Body body) {
  return enter_context(function, [&](Double& all, Context& current, Lock& lock) {
    const auto at = all.events.find(handle);
    if (at == all.events.end()) return kInvalidHandle;
    Event& event = *at->second;
    if (event.context.retained == 0) return kContextIsDestroyed;
    if (event.context.sticky != kSuccess) return event.context.sticky;
    return body(all, event, current, lock);
  });
}

}  // namespace

CUresult cuEventCreate(CUevent* event, unsigned flags) {
  return enter_context("cuEventCreate", [&](Double& all, Context& current, Lock&) {
    constexpr unsigned kKnown = 1 | kEventDisableTiming | kEventInterprocess;
    const bool shared = (flags & kEventInterprocess) != 0;
    if (event == nullptr || (flags & ~kKnown) != 0 ||
        (shared && (flags & kEventDisableTiming) == 0)) {
      return kInvalidValue;
    }
    auto made = std::make_unique<Event>(current);
    *event = made.get();
    all.events.emplace(made.get(), std::move(made));
    return kSuccess;
  });
}

// Streams and threads that wait for it go on waiting.
CUresult cuEventDestroy_v2(CUevent event) {
  return enter_release("cuEventDestroy_v2", [&](Double& all, Context&, Lock&) {
    return all.events.erase(event) == 1 ? kSuccess : kInvalidHandle;
  });
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
  return with_event("cuEventRecord", event,
                    [&](Double& all, Event& found, Context& current, Lock&) {
                      const auto on = find_stream(all, stream, current);
                      if (on == nullptr || &on->context != &found.context) return kInvalidHandle;
                      found.recorded = std::make_shared<Work>(found.context);
                      submit(all, on, found.recorded);
                      return kSuccess;
                    });
}

CUresult cuEventQuery(CUevent event) {
  return with_event("cuEventQuery", event, [&](Double&, Event& found, Context&, Lock&) {
    return found.recorded == nullptr || found.recorded->done ? kSuccess : kNotReady;
  });
}

CUresult cuEventSynchronize(CUevent event) {
  return with_event("cuEventSynchronize", event,
                    [&](Double& all, Event& found, Context&, Lock& lock) {
                      const Context& context = found.context;
                      if (found.recorded != nullptr) all.engine.wait_for(lock, {found.recorded});
                      return context.sticky;
                    });
}

}  // namespace farwrite::cuda_double
