#include "python/waiting.h"

#include <nanobind/stl/optional.h>
#include <pthread.h>

#include <cmath>
#include <csignal>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "python/errors.h"

namespace farwrite::python {
namespace {

// A program that makes one call mostly makes the next one soon: starting a thread takes longer than
// most of the calls.
constexpr std::chrono::nanoseconds kComesBack = std::chrono::milliseconds(100);

// The main thread's alone.
SignalWatch* innermost = nullptr;

// A new thread inherits the mask of signals: those of the process are for Python's main thread. A
// fault in a thread is its own, and its handler must run.
class WithoutSignals {
 public:
  WithoutSignals() {
    sigset_t blocked;
    ::sigfillset(&blocked);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT}) {
      ::sigdelset(&blocked, fault);
    }
    ::pthread_sigmask(SIG_SETMASK, &blocked, &before_);
  }
  ~WithoutSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  WithoutSignals(const WithoutSignals&) = delete;
  WithoutSignals& operator=(const WithoutSignals&) = delete;

 private:
  sigset_t before_;
};

// Runs `body` in a detached thread.
Status start_detached(std::function<void()> body) {
  const WithoutSignals blocked;
  try {
    std::thread(std::move(body)).detach();
  } catch (const std::system_error& error) {
    return Status::system_error(StatusCode::kResourceExhausted,
                                {"start a call that Ctrl-C can interrupt"},
                                "no thread could be started", error.code().value(),
                                "end other threads, or raise the limits (ulimit -u, ulimit -v)");
  }
  return Status();
}

}  // namespace

SignalWatch::SignalWatch() : outer_(std::exchange(innermost, this)) {
  fw_set_interrupt(&look, this);
}

SignalWatch::~SignalWatch() {
  innermost = outer_;
  fw_set_interrupt(outer_ == nullptr ? nullptr : &look, outer_);
}

int SignalWatch::look(void* watch) {
  auto& self = *static_cast<SignalWatch*>(watch);
  if (self.raised_) return 1;
  SignalWatch* const watched = std::exchange(innermost, nullptr);  // a handler's own come and go
  self.released_.reset();
  if (PyErr_CheckSignals() != 0) {
    self.error_.emplace();
    self.raised_ = true;
  }
  self.released_.emplace();
  innermost = watched;
  return self.raised_ ? 1 : 0;
}

void SignalWatch::raise_if_raised() {
  if (!raised_) return;
  error_->restore();
  throw nanobind::python_error();
}

Result<std::shared_ptr<Beside>> Beside::run(std::function<void()> job) {
  static std::shared_ptr<Beside> last;
  if (last != nullptr && !last->mark_.in_forked_child() && std::exchange(last->free_, false) &&
      last->take(job)) {
    return last;
  }
  const auto next = std::make_shared<Beside>();
  (void)next->take(job);
  FARWRITE_RETURN_IF_ERROR(start_detached([next] { next->work(); }));
  last = next;
  return next;
}

// False, and `job` is still the caller's, if the thread has ended.
bool Beside::take(std::function<void()>& job) {
  {
    const std::lock_guard lock(mutex_);
    if (ended_) return false;
    job_ = std::move(job);
  }
  given_.notify_one();
  return true;
}

void Beside::work() {
  while (true) {
    std::function<void()> job;  // what it holds is let go of before the next wait
    {
      const std::lock_guard lock(mutex_);
      ended_ = !given_.wait_for(mutex_, kComesBack, [this] { return job_ != nullptr; });
      if (ended_) return;
      job = std::exchange(job_, nullptr);
    }
    job();
  }
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

std::chrono::nanoseconds to_timeout(nanobind::handle seconds, const char* operation) {
  if (seconds.is_none()) return kForever;
  if (PyFloat_CheckExact(seconds.ptr()) || PyLong_CheckExact(seconds.ptr())) {
    const double number = PyFloat_AsDouble(seconds.ptr());
    if (number >= 0) return to_timeout(number);
    PyErr_Clear();  // of an int that is no double
  }
  const nanobind::object checked =
      nanobind::module_::import_("farwrite.arguments").attr("seconds")(operation, seconds);
  return to_timeout(nanobind::cast<std::optional<double>>(checked));
}

bool in_main_thread() {
  static const unsigned long main_thread = nanobind::cast<unsigned long>(
      nanobind::module_::import_("threading").attr("main_thread")().attr("ident"));
  return PyThread_get_thread_ident() == main_thread;
}

}  // namespace farwrite::python
