#include "context.h"

#include "double.h"
#include "entry.h"

namespace farwrite::cuda_double {
namespace {

std::vector<Context*>& stack() {
  thread_local std::vector<Context*> contexts;
  return contexts;
}

bool is_context(const Double& all, const Context* context) {
  for (const auto& known : all.contexts) {
    if (known.get() == context) return true;
  }
  return false;
}

}  // namespace

Context* top_context() { return stack().empty() ? nullptr : stack().back(); }

void forget_stack() { stack().clear(); }

CUresult current_context(Context** context, bool sticky_too) {
  *context = top_context();
  if (*context == nullptr) return kInvalidContext;
  if ((*context)->retained == 0) return kContextIsDestroyed;
  return sticky_too ? kSuccess : (*context)->sticky;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  return enter("cuDevicePrimaryCtxRetain", [&](Double& all, Lock&) {
    if (context == nullptr) return kInvalidValue;
    Context* of_device = all.context_of(device);
    if (of_device == nullptr) return kInvalidDevice;
    if (of_device->sticky != kSuccess) return of_device->sticky;
    ++of_device->retained;
    *context = of_device;
    return kSuccess;
  });
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  return enter("cuDevicePrimaryCtxRelease_v2", [&](Double& all, Lock& lock) {
    Context* of_device = all.context_of(device);
    if (of_device == nullptr) return kInvalidDevice;
    if (of_device->retained == 0) return kInvalidContext;
    if (of_device->retained == 1) all.engine.wait_for(lock, *of_device);
    if (of_device->retained == 0) return kInvalidContext;  // another thread was faster
    --of_device->retained;
    return kSuccess;
  });
}

CUresult cuCtxPushCurrent_v2(CUcontext context) {
  return enter("cuCtxPushCurrent_v2", [&](Double& all, Lock&) {
    if (context == nullptr || !is_context(all, context)) return kInvalidContext;
    if (context->retained == 0) return kContextIsDestroyed;
    stack().push_back(context);
    return kSuccess;
  });
}

CUresult cuCtxPopCurrent_v2(CUcontext* context) {
  return enter("cuCtxPopCurrent_v2", [&](Double&, Lock&) {
    if (stack().empty()) return kInvalidContext;
    if (context != nullptr) *context = stack().back();
    stack().pop_back();
    return kSuccess;
  });
}

CUresult cuCtxGetCurrent(CUcontext* context) {
  return enter("cuCtxGetCurrent", [&](Double&, Lock&) {
    if (context == nullptr) return kInvalidValue;
    *context = top_context();
    return kSuccess;
  });
}

CUresult cuCtxGetDevice(CUdevice* device) {
  return enter("cuCtxGetDevice", [&](Double&, Lock&) {
    if (device == nullptr) return kInvalidValue;
    Context* current = nullptr;
    const CUresult usable = current_context(&current, true);
    if (usable == kSuccess) *device = current->device;
    return usable;
  });
}

}  // namespace farwrite::cuda_double
