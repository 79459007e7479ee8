#include "engine.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "context.h"

namespace farwrite::cuda_double {
namespace {

constexpr std::size_t kLargestPiece = std::size_t{256} << 10;

// Signals are for the threads of the program. What a bad access raises stays, so that it is
// reported.
void block_signals(sigset_t* before) {
  sigset_t mostly;
  ::sigfillset(&mostly);
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP}) {
    ::sigdelset(&mostly, fault);
  }
  ::pthread_sigmask(SIG_SETMASK, &mostly, before);
}

// A quarter, so that even a small copy can be torn.
std::size_t piece_of(const Work& work) {
  const std::size_t quarter = std::clamp(work.size / 4, std::size_t{1}, kLargestPiece);
  return std::min(quarter, work.size - work.moved);
}

struct Window {
  std::byte* bytes;
  std::size_t room;
};

Window window(const Span& span, std::size_t offset) {
  for (const Part& part : span.parts) {
    if (offset < part.size) return {part.bytes + offset, part.size - offset};
    offset -= part.size;
  }
  return {nullptr, 0};
}

void move_bytes(const Work& work, std::size_t offset, std::size_t size) {
  while (size > 0) {
    const Window to = window(work.to, offset);
    std::size_t here = std::min(size, to.room);
    if (work.from.parts.empty()) {
      std::memset(to.bytes, work.fill, here);
    } else {
      const Window from = window(work.from, offset);
      here = std::min(here, from.room);
      std::memcpy(to.bytes, from.bytes, here);
    }
    offset += here;
    size -= here;
  }
}

bool all_allow(const Span& span, int device, int access) {
  return std::ranges::all_of(span.parts, [&](const Part& part) {
    return part.place == nullptr || (part.place->alive && part.place->allows(device, access));
  });
}

}  // namespace

void Engine::ring(const std::shared_ptr<Stream>& stream, Work& work) {
  if (!started_) {
    sigset_t before;
    block_signals(&before);
    // Detached: all it uses is never destroyed, and it ends with the process.
    std::thread([this] { run(); }).detach();
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    started_ = true;
  }
  work.number = next_number_++;
  if (stream->queue.size() == 1) busy_.push_back(stream);
  wake_.notify_one();
}

void Engine::wait_for(Lock& lock, const std::vector<std::shared_ptr<Work>>& works) {
  changed_.wait(lock, [&] {
    return std::ranges::all_of(works, [](const auto& work) { return work->done; });
  });
}

void Engine::wait_for(Lock& lock, const Context& context) {
  std::vector<std::shared_ptr<Work>> works;
  for (const auto& stream : busy_) {
    if (&stream->context == &context) works.push_back(stream->queue.back());
  }
  wait_for(lock, works);
}

void Engine::pause(Lock& lock) {
  paused_ = true;
  steps_ = 0;
  wait_for_piece(lock);
}

void Engine::resume() {
  paused_ = false;
  wake_.notify_one();
}

unsigned Engine::step(Lock& lock, unsigned pieces) {
  steps_ = pieces;
  wake_.notify_one();
  changed_.wait(lock, [&] { return !moving_ && (steps_ == 0 || busy_.empty()); });
  const unsigned left = steps_;
  steps_ = 0;
  return pieces - left;
}

void Engine::wait_for_piece(Lock& lock) {
  changed_.wait(lock, [&] { return !moving_; });
}

void Engine::run() {
  ::pthread_setname_np(::pthread_self(), "cuda_double");
  Lock lock(lock_);
  for (;;) {
    Clock::time_point again = Clock::time_point::max();
    if (const auto stream = choose(&again)) {
      advance(lock, stream);
    } else if (again == Clock::time_point::max()) {
      wake_.wait(lock);
    } else {
      wake_.wait_until(lock, again);
    }
  }
}

std::shared_ptr<Stream> Engine::choose(Clock::time_point* again) {
  if (paused_ && steps_ == 0) return nullptr;
  const Clock::time_point now = Clock::now();
  std::vector<std::shared_ptr<Stream>> runnable;
  for (const auto& stream : busy_) {
    if (ready(*stream->queue.front(), now, again)) runnable.push_back(stream);
  }
  if (runnable.empty()) return nullptr;
  const auto number = [](const auto& stream) { return stream->queue.front()->number; };
  return ++turns_ % 4 == 0 ? *std::ranges::min_element(runnable, {}, number)
                           : *std::ranges::max_element(runnable, {}, number);
}

bool Engine::ready(Work& work, Clock::time_point now, Clock::time_point* again) {
  std::erase_if(work.after, [](const auto& other) { return other->done; });
  if (!work.after.empty()) return false;
  if (delay_.count() == 0) return true;
  if (!work.not_before) {
    const Clock::duration tick = delay_;
    const Clock::duration least = now.time_since_epoch() + 2 * tick - Clock::duration(1);
    work.not_before = Clock::time_point(least / tick * tick);
  }
  if (*work.not_before <= now) return true;
  *again = std::min(*again, *work.not_before);
  return false;
}

bool Engine::allowed(const Work& work) {
  const int device = work.context.device;
  return all_allow(work.to, device, kAccessReadWrite) && all_allow(work.from, device, kAccessRead);
}

void Engine::advance(Lock& lock, const std::shared_ptr<Stream>& stream) {
  const std::shared_ptr<Work> work = stream->queue.front();
  Context& context = work->context;
  if (work->size > 0 && context.sticky == kSuccess && allowed(*work)) {
    const std::size_t piece = piece_of(*work);
    const bool backwards = work->number % 2 == 0;
    const std::size_t offset = backwards ? work->size - work->moved - piece : work->moved;
    moving_ = true;
    lock.unlock();
    move_bytes(*work, offset, piece);
    lock.lock();
    moving_ = false;
    work->moved += piece;
    if (steps_ > 0) --steps_;
  }
  // What was taken away meanwhile may be another owner's by now.
  if (work->size > 0 && context.sticky == kSuccess && !allowed(*work)) {
    context.sticky = kIllegalAddress;
  }
  if (work->moved == work->size || context.sticky != kSuccess) finish(stream);
  changed_.notify_all();
}

void Engine::finish(const std::shared_ptr<Stream>& stream) {
  Work& work = *stream->queue.front();
  work.done = true;
  work.to = {};
  work.from = {};
  stream->queue.pop_front();
  if (stream->queue.empty()) std::erase(busy_, stream);
}

}  // namespace farwrite::cuda_double
