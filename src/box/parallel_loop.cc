#include "box/parallel_loop.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <vector>

#include "core/cpu_relax.h"
#include "core/mutex.h"
#include "core/signals_blocked.h"

namespace farwrite::box {
namespace {

// The last parts of a loop end at about the same time: worth a short poll before the caller sleeps.
constexpr std::chrono::nanoseconds kLoopEndPoll = std::chrono::microseconds(10);

// One run(), on its caller's stack. Helpers reach it only while they are counted in `helpers`.
struct Loop {
  Loop(std::size_t part_count, const std::function<void(std::size_t)>& part_body)
      : parts(part_count), body(part_body) {}

  void work() {
    for (std::size_t part = next.fetch_add(1); part < parts; part = next.fetch_add(1)) body(part);
  }
  bool has_parts() const { return next.load() < parts; }

  const std::size_t parts;
  const std::function<void(std::size_t)>& body;
  std::atomic<std::size_t> next{0};
  std::atomic<unsigned> helpers{0};  // changed under the lock
};

}  // namespace

class ParallelLoop::State {
 public:
  void start(unsigned helpers);
  void stop();
  void run(Loop& loop);
  std::size_t helpers() const { return threads_.size(); }

 private:
  void help();
  // A loop with parts left; nullptr if there is none. Under the lock.
  Loop* next_loop() const FW_REQUIRES(mutex_);

  std::vector<pthread_t> threads_;
  core::Mutex mutex_{core::LockRank::kBox};
  core::CondVar work_;  // a loop came, or stopping_
  core::CondVar left_;  // the last helper of some loop left it
  std::vector<Loop*> loops_ FW_GUARDED_BY(mutex_);
  bool stopping_ FW_GUARDED_BY(mutex_) = false;
};

void ParallelLoop::State::start(unsigned helpers) {
  const auto main = [](void* state) -> void* {
    static_cast<State*>(state)->help();
    return nullptr;
  };
  threads_.reserve(helpers);
  const core::SignalsBlocked blocked;
  for (unsigned i = 0; i < helpers; ++i) {
    pthread_t thread{};
    if (::pthread_create(&thread, nullptr, main, this) != 0) break;
    ::pthread_setname_np(thread, "farwrite-loop");
    threads_.push_back(thread);
  }
}

void ParallelLoop::State::stop() {
  {
    const core::Lock lock(mutex_);
    stopping_ = true;
  }
  work_.notify_all();
  for (const pthread_t thread : threads_) ::pthread_join(thread, nullptr);
}

void ParallelLoop::State::run(Loop& loop) {
  {
    const core::Lock lock(mutex_);
    loops_.push_back(&loop);
  }
  const std::size_t wanted = std::min(loop.parts - 1, threads_.size());
  for (std::size_t i = 0; i < wanted; ++i) work_.notify_one();
  loop.work();

  core::Lock lock(mutex_);
  std::erase(loops_, &loop);  // from here on no helper joins
  if (loop.helpers.load() == 0) return;
  lock.unlock();
  for (core::SpinBudget poll(kLoopEndPoll); loop.helpers.load() != 0 && poll.spin();) {
  }
  // With the lock, since a helper still holds it when it counts itself out.
  lock.lock();
  left_.wait(mutex_, [&loop] { return loop.helpers.load() == 0; });
}

Loop* ParallelLoop::State::next_loop() const {
  for (Loop* const loop : loops_) {
    if (loop->has_parts()) return loop;
  }
  return nullptr;
}

void ParallelLoop::State::help() {
  core::Lock lock(mutex_);
  while (true) {
    Loop* loop = nullptr;
    work_.wait(mutex_,
               [&]() FW_REQUIRES(mutex_) { return stopping_ || (loop = next_loop()) != nullptr; });
    if (loop == nullptr) return;
    loop->helpers.fetch_add(1);
    lock.unlock();
    loop->work();
    lock.lock();
    if (loop->helpers.fetch_sub(1) == 1) left_.notify_all();
  }
}

ParallelLoop::ParallelLoop(unsigned threads) : state_(std::make_unique<State>()) {
  if (threads > 1) state_->start(threads - 1);
}

ParallelLoop::~ParallelLoop() {
  if (fork_guard_.in_forked_child()) {
    // The threads exist only in the parent, and destroying a condition they wait for would wait for
    // them.
    (void)state_.release();  // NOLINT(bugprone-unused-return-value)
    return;
  }
  state_->stop();
}

void ParallelLoop::run(std::size_t parts, const std::function<void(std::size_t part)>& body) {
  if (parts == 0) return;
  Loop loop(parts, body);
  if (parts == 1 || state_->helpers() == 0 || fork_guard_.in_forked_child()) {
    loop.work();
  } else {
    state_->run(loop);
  }
}

unsigned ParallelLoop::threads() const { return static_cast<unsigned>(state_->helpers()) + 1; }

}  // namespace farwrite::box
