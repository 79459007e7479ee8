// The driver's functions that copy and fill. All are asynchronous, whatever memory it is.
#include "double.h"
#include "entry.h"

namespace farwrite::cuda_double {
namespace {

enum class Side { kAny, kHost, kDevice };

CUresult find_side(Double& all, CUdeviceptr address, std::size_t size, Side side, Span* span) {
  const CUresult found = find_span(all, address, size, span);
  if (found != kSuccess) return found;
  // Pinned host memory has an address on the GPU, the same one.
  const bool pinned = span->parts.front().place != nullptr;
  if (side == Side::kHost && span->on_device) return kInvalidValue;
  if (side == Side::kDevice && !span->on_device && !pinned) return kInvalidValue;
  return kSuccess;
}

// As the driver, on an H200: it looks at a GPU's rights when a copy is asked for.
bool may_write(const Span& span, int device) {
  if (!span.on_device) return true;
  for (const auto& part : span.parts) {
    if (part.place != nullptr && !part.place->allows(device, kAccessReadWrite)) return false;
  }
  return true;
}

// Runs find(work), which fills in the spans, and submits the work.
template <class Find>
CUresult submit_bytes(const char* function, std::size_t size, CUstream stream, Find find) {
  return enter_context(function, [&](Double& all, Context& current, Lock&) {
    const auto on = find_stream(all, stream, current);
    if (on == nullptr) return kInvalidHandle;
    if (on->context.retained == 0) return kContextIsDestroyed;
    if (on->context.sticky != kSuccess) return on->context.sticky;
    if (size == 0) return kSuccess;
    const auto work = std::make_shared<Work>(on->context);
    work->size = size;
    const CUresult found = find(all, *work);
    if (found == kSuccess && !may_write(work->to, on->context.device)) return kInvalidValue;
    if (found == kSuccess) submit(all, on, work);
    return found;
  });
}

CUresult copy(const char* function, CUdeviceptr to, Side to_side, CUdeviceptr from, Side from_side,
              std::size_t size, CUstream stream) {
  return submit_bytes(function, size, stream, [&](Double& all, Work& work) {
    const CUresult found = find_side(all, to, size, to_side, &work.to);
    return found == kSuccess ? find_side(all, from, size, from_side, &work.from) : found;
  });
}

}  // namespace

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, std::size_t size, CUstream stream) {
  return copy("cuMemcpyAsync", to, Side::kAny, from, Side::kAny, size, stream);
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, std::size_t size, CUstream stream) {
  return copy("cuMemcpyHtoDAsync_v2", to, Side::kDevice, reinterpret_cast<CUdeviceptr>(from),
              Side::kHost, size, stream);
}

CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, std::size_t size, CUstream stream) {
  return copy("cuMemcpyDtoHAsync_v2", reinterpret_cast<CUdeviceptr>(to), Side::kHost, from,
              Side::kDevice, size, stream);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, std::size_t size, CUstream stream) {
  return copy("cuMemcpyDtoDAsync_v2", to, Side::kDevice, from, Side::kDevice, size, stream);
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, std::size_t size, CUstream stream) {
  return submit_bytes("cuMemsetD8Async", size, stream, [&](Double& all, Work& work) {
    work.fill = value;
    return find_side(all, to, size, Side::kDevice, &work.to);
  });
}

}  // namespace farwrite::cuda_double
