#include "python/waiting.h"

#include <cmath>
#include <string>
#include <thread>
#include <utility>

#include "core/fork_guard.h"
#include "core/start_thread.h"
#include "python/errors.h"

namespace farwrite::python {
namespace {

// A program that makes one call mostly makes the next one soon: starting a thread takes longer than
// most of the calls.
constexpr std::chrono::nanoseconds kComesBack = std::chrono::milliseconds(100);

// A thread that does one job after the other, and ends when none comes.
struct Beside {
  core::Mutex mutex;
  core::CondVar changed;
  bool waits FW_GUARDED_BY(mutex) = false;
  std::function<void()> job FW_GUARDED_BY(mutex);
  const core::ForkGuard fork_guard;
};

void work(Beside& own) {
  while (true) {
    std::function<void()> job;  // what it holds is let go of before the next wait
    {
      const core::Lock lock(own.mutex);
      own.waits = true;
      own.changed.wait_for(own.mutex, kComesBack,
                           [&]() FW_REQUIRES(own.mutex) { return own.job != nullptr; });
      own.waits = false;
      job = std::exchange(own.job, nullptr);
    }
    if (job == nullptr) return;
    job();
  }
}

}  // namespace

Status run_beside(std::function<void()> job) {
  static std::shared_ptr<Beside> last;  // of the main thread
  if (last != nullptr && !last->fork_guard.in_forked_child()) {
    const core::Lock lock(last->mutex);
    if (last->waits) {
      last->waits = false;
      last->job = std::move(job);
      last->changed.notify_one();
      return Status();
    }
  }
  const auto next = std::make_shared<Beside>();
  {
    const core::Lock lock(next->mutex);
    next->job = std::move(job);
  }
  std::thread thread;
  FARWRITE_RETURN_IF_ERROR(core::start_thread(thread, {"start a call that Ctrl-C can interrupt"},
                                              [next] { work(*next); }));
  thread.detach();
  last = next;
  return Status();
}

std::chrono::nanoseconds to_timeout(std::optional<double> seconds, const char* what) {
  if (!seconds.has_value()) return kForever;
  if (std::isnan(*seconds) || *seconds < 0) {
    raise(
        Status(StatusCode::kInvalidArgument,
               std::string(what) + " " + std::to_string(*seconds) +
                   " is not a length of time; give seconds >= 0, or None to wait without a limit"));
  }
  // Past a century there is no difference, and nanoseconds would overflow.
  constexpr double kCentury = 3.2e9;
  if (*seconds > kCentury) return kForever;
  return std::chrono::nanoseconds(static_cast<std::int64_t>(*seconds * 1e9));
}

bool in_main_thread() {
  static const unsigned long main_thread = nanobind::cast<unsigned long>(
      nanobind::module_::import_("threading").attr("main_thread")().attr("ident"));
  return PyThread_get_thread_ident() == main_thread;
}

}  // namespace farwrite::python
