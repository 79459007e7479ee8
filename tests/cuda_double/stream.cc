#include "stream.h"

#include <algorithm>
#include <cstdint>
#include <thread>

#include "double.h"

namespace farwrite::cuda_double {
namespace {

constexpr std::uintptr_t kLegacy = 1;
constexpr std::uintptr_t kPerThread = 2;

void make_blocking(Context& context, const std::shared_ptr<Stream>& stream) {
  std::erase_if(context.blocking, [](const auto& known) { return known.expired(); });
  context.blocking.push_back(stream);
}

void add_pending(const std::shared_ptr<Work>& work, std::vector<std::shared_ptr<Work>>* all) {
  if (work != nullptr && !work->done) all->push_back(work);
}

}  // namespace

std::shared_ptr<Stream> make_stream(Context& context, bool blocking) {
  auto made = std::make_shared<Stream>(context, blocking);
  if (blocking) make_blocking(context, made);
  return made;
}

std::shared_ptr<Stream> find_stream(Double& all, CUstream handle, Context& current) {
  const auto number = reinterpret_cast<std::uintptr_t>(handle);
  if (number <= kLegacy) return current.legacy;
  if (number == kPerThread) {
    std::shared_ptr<Stream>& own = current.of_threads[std::this_thread::get_id()];
    if (own == nullptr) own = make_stream(current, true);
    return own;
  }
  const auto at = all.streams.find(handle);
  return at == all.streams.end() ? nullptr : at->second;
}

std::vector<std::shared_ptr<Work>> work_before(const Stream& stream) {
  std::vector<std::shared_ptr<Work>> before;
  add_pending(stream.last, &before);
  const Context& context = stream.context;
  if (&stream == context.legacy.get()) {
    for (const auto& known : context.blocking) {
      if (const auto other = known.lock()) add_pending(other->last, &before);
    }
  } else if (stream.blocking) {
    add_pending(context.legacy->last, &before);
  }
  return before;
}

void submit(Double& all, const std::shared_ptr<Stream>& stream, const std::shared_ptr<Work>& work) {
  const auto before = work_before(*stream);
  work->after.insert(work->after.end(), before.begin(), before.end());
  stream->last = work;
  stream->queue.push_back(work);
  all.engine.ring(stream, *work);
}

}  // namespace farwrite::cuda_double
