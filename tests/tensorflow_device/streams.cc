#include "streams.h"

#include <algorithm>
#include <memory>
#include <thread>
#include <utility>

#include "counters.h"
#include "faults.h"
#include "settings.h"

namespace fartest {
namespace {

// How soon a held copy notices that it is released.
constexpr std::chrono::milliseconds kPoll{1};

std::size_t middle(const Streams::Work& work) { return work.pieces / 2; }

}  // namespace

Streams::Streams(std::uint32_t seed) : generator_(seed) {
  std::thread([this] { serve(); }).detach();
}

void Streams::enqueue(Stream stream, Work work) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Queue& queue = queues_[stream];
  queue.works.push_back(std::move(work));
  ++queue.enqueued;
  changed_.notify_all();
}

Streams::Mark Streams::end_of(Stream stream) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return {stream, queues_[stream].enqueued};
}

void Streams::wait(Mark mark) {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [&] { return passed(mark); });
}

std::size_t Streams::draw(std::size_t count) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return generator_() % count;
}

std::chrono::microseconds Streams::draw_delay() {
  return settings().delay * static_cast<int>(draw(3));
}

void Streams::serve() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    Clock::time_point look_again = Clock::time_point::max();
    const std::optional<Stream> stream = choose(&look_again);
    if (stream) {
      work(queues_[*stream], lock);
    } else if (look_again == Clock::time_point::max()) {
      changed_.wait(lock);
    } else {
      changed_.wait_until(lock, look_again);
    }
  }
}

std::optional<Streams::Stream> Streams::choose(Clock::time_point* look_again) {
  const Clock::time_point now = Clock::now();
  std::vector<Stream> due;
  for (int stream = 0; stream < kCount; ++stream) {
    if (is_due(queues_[stream], now, look_again)) due.push_back(static_cast<Stream>(stream));
  }
  if (due.empty()) return std::nullopt;
  return due[generator_() % due.size()];
}

bool Streams::is_due(Queue& queue, Clock::time_point now, Clock::time_point* look_again) {
  if (queue.works.empty()) return false;
  const Work& work = queue.works.front();
  if (!queue.begun) {
    const auto unmet = [this](Mark mark) { return !passed(mark); };
    if (std::any_of(work.after.begin(), work.after.end(), unmet)) return false;
    queue.begun = true;
    queue.not_before = now + work.delay;
  }
  if (queue.next_piece == middle(work) && !Faults::of_process().released(work.held)) {
    queue.not_before = std::max(queue.not_before, now + kPoll);
  }
  if (queue.not_before <= now) return true;
  *look_again = std::min(*look_again, queue.not_before);
  return false;
}

void Streams::work(Queue& queue, std::unique_lock<std::mutex>& lock) {
  Work& work = queue.works.front();  // stays where it is while others come behind it
  const std::size_t piece = queue.next_piece;
  lock.unlock();
  work.piece(piece);
  lock.lock();
  if (++queue.next_piece < work.pieces) {
    if (queue.next_piece == middle(work)) queue.not_before = Clock::now() + work.delay;
    return;
  }
  std::function<void()> finished = std::move(work.finished);
  queue.works.pop_front();
  queue.begun = false;
  queue.next_piece = 0;
  ++queue.passed;
  changed_.notify_all();
  if (!finished) return;
  lock.unlock();
  finished();
  finished = nullptr;  // what it holds may end, and that needs no lock of the streams
  lock.lock();
}

}  // namespace fartest
