#include "memory/background_release.h"

#include <pthread.h>

#include <deque>
#include <thread>
#include <utility>

#include "core/fork_guard.h"
#include "core/mutex.h"
#include "core/start_thread.h"

namespace farwrite::memory {
namespace {

constexpr std::uint64_t kWorthAThread = std::uint64_t{4} << 20;

struct Releases {
  const core::ForkGuard guard;  // a child may find the mutex locked
  core::Mutex mutex{core::LockRank::kMemory};
  core::CondVar done;
  std::deque<std::function<void()>> waiting FW_GUARDED_BY(mutex);
  bool running FW_GUARDED_BY(mutex) = false;  // the thread

  // Outlives every thread.
  static Releases& of_process() {
    static Releases* const only = new Releases;
    return *only;
  }

  bool enqueue(std::function<void()>& release) {
    const core::Lock lock(mutex);
    if (!running) {
      std::thread thread;
      if (!core::start_thread(thread, {"free memory"}, [this] { run(); }).ok()) return false;
      thread.detach();
      running = true;
    }
    waiting.push_back(std::move(release));
    return true;
  }

  void run() {
    (void)::pthread_setname_np(::pthread_self(), "farwrite-free");
    core::Lock lock(mutex);
    while (!waiting.empty()) {
      {
        const std::function<void()> release = std::move(waiting.front());
        waiting.pop_front();
        lock.unlock();
        release();
      }
      lock.lock();
    }
    running = false;
    done.notify_all();
  }
};

}  // namespace

void release_in_background(std::uint64_t bytes, std::function<void()> release) {
  Releases& releases = Releases::of_process();
  const bool apart = bytes >= kWorthAThread && !releases.guard.in_forked_child();
  if (!apart || !releases.enqueue(release)) release();
}

void wait_for_background_releases() {
  Releases& releases = Releases::of_process();
  if (releases.guard.in_forked_child()) return;
  core::Lock lock(releases.mutex);
  releases.done.wait(releases.mutex,
                     [&releases]() FW_REQUIRES(releases.mutex) { return !releases.running; });
}

}  // namespace farwrite::memory
