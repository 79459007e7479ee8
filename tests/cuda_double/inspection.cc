// What tests may ask and order: see cuda_double.h.
#include <cstdio>
#include <cstring>
#include <string>

#include "cuda_double.h"
#include "double.h"
#include "entry.h"

namespace farwrite::cuda_double {
namespace {

CudaDoubleLive count_live(Double& all) {
  CudaDoubleLive live{};
  live.allocations = all.memory.ledger().allocations;
  live.reservations = all.memory.reservations();
  live.mappings = all.memory.mappings();
  live.registrations = all.registrations.size();
  live.streams = all.streams.size();
  live.events = all.events.size();
  for (const auto& context : all.contexts) live.contexts += context->retained;
  return live;
}

CUresult move_now(CUdeviceptr device, std::size_t size, void* out, const void* in) {
  if (is_forked_child()) return kNotInitialized;
  Double& all = the_double();
  Lock lock(all.lock);
  all.engine.wait_for_piece(lock);
  if (size == 0) return kSuccess;
  Span span;
  const CUresult found = find_span(all, device, size, &span);
  if (found != kSuccess || !span.on_device) return kInvalidValue;
  std::size_t at = 0;
  for (const Part& part : span.parts) {
    if (out != nullptr) {
      std::memcpy(static_cast<std::byte*>(out) + at, part.bytes, part.size);
    } else {
      std::memcpy(part.bytes, static_cast<const std::byte*>(in) + at, part.size);
    }
    at += part.size;
  }
  return kSuccess;
}

}  // namespace

CudaDoubleLive cudaDoubleLive() {
  if (is_forked_child()) return {};
  Double& all = the_double();
  const Lock lock(all.lock);
  return count_live(all);
}

unsigned long long cudaDoubleCalls(const char* function) {
  if (is_forked_child()) return 0;
  Double& all = the_double();
  const Lock lock(all.lock);
  return all.faults.calls(function);
}

CUresult cudaDoublePeek(CUdeviceptr from, void* to, std::size_t size) {
  return move_now(from, size, to, nullptr);
}

CUresult cudaDoublePoke(CUdeviceptr to, const void* from, std::size_t size) {
  return move_now(to, size, nullptr, from);
}

bool cudaDoubleFail(const char* faults) {
  if (is_forked_child()) return false;
  Double& all = the_double();
  const Lock lock(all.lock);
  std::string problem;
  if (all.faults.set(faults, &problem)) return true;
  std::fprintf(stderr, "libcuda_double.so: %s\n", problem.c_str());
  return false;
}

void cudaDoublePause() {
  if (is_forked_child()) return;
  Double& all = the_double();
  Lock lock(all.lock);
  all.engine.pause(lock);
}

void cudaDoubleResume() {
  if (is_forked_child()) return;
  Double& all = the_double();
  const Lock lock(all.lock);
  all.engine.resume();
}

unsigned cudaDoubleStep(unsigned pieces) {
  if (is_forked_child()) return 0;
  Double& all = the_double();
  Lock lock(all.lock);
  return all.engine.step(lock, pieces);
}

unsigned long long cudaDoubleReset() {
  if (is_forked_child()) return 0;
  Double& all = the_double();
  Lock lock(all.lock);
  all.engine.resume();
  for (const auto& context : all.contexts) all.engine.wait_for(lock, *context);
  const CudaDoubleLive live = count_live(all);
  const unsigned long long objects = live.allocations + live.reservations + live.mappings +
                                     live.registrations + live.streams + live.events +
                                     live.contexts;
  if (objects != 0) return objects;
  for (const auto& context : all.contexts) {
    context->sticky = kSuccess;
    context->of_threads.clear();
  }
  forget_stack();
  disown_gpus();
  all.initialized = false;
  all.faults.forget_calls();
  all.read_environment();
  return 0;
}

}  // namespace farwrite::cuda_double
