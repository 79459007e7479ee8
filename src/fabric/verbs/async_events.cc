#include "fabric/verbs/async_events.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include "core/log.h"
#include "fabric/verbs/work_completion.h"

namespace farwrite::fabric::verbs {
namespace {

struct Listeners {
  std::mutex mutex;
  std::vector<std::pair<ibv_context*, const std::function<void(const std::string&)>*>> all;
};

Listeners& listeners() {
  static auto* const instance = new Listeners;  // threads may use it until the process ends
  return *instance;
}

}  // namespace

AsyncEvents::AsyncEvents(core::EventLoop& loop, VerbsLibrary& library, ibv_context* context,
                         std::function<void(const std::string&)> on_fatal)
    : loop_(loop), library_(library), context_(context), on_fatal_(std::move(on_fatal)) {
  const std::lock_guard<std::mutex> lock(listeners().mutex);
  listeners().all.emplace_back(context_, &on_fatal_);
}

AsyncEvents::~AsyncEvents() {
  if (fd_ >= 0) {
    loop_.remove_fd(fd_);
    (void)::close(fd_);
  }
  const std::lock_guard<std::mutex> lock(listeners().mutex);
  std::erase_if(listeners().all, [this](const auto& entry) { return entry.second == &on_fatal_; });
}

Status AsyncEvents::start() {
  const int flags = ::fcntl(context_->async_fd, F_GETFL);
  fd_ = ::fcntl(context_->async_fd, F_DUPFD_CLOEXEC, 0);
  if (flags < 0 || fd_ < 0 || ::fcntl(fd_, F_SETFL, flags | O_NONBLOCK) != 0) {
    return Status::system_error(StatusCode::kResourceExhausted, {"open a device", "", "verbs"},
                                "the device's events cannot be watched", errno,
                                "raise the limit of open files (ulimit -n)");
  }
  return loop_.add_fd(fd_, EPOLLIN, [this](std::uint32_t) { on_readable(); });
}

void AsyncEvents::on_readable() {
  ibv_async_event event{};
  int error = 0;
  while ((error = library_.get_async_event(context_, &event)) == 0) {
    bool fatal = false;
    const std::string sentence = describe_event(event, library_.device_name(context_), &fatal);
    library_.ack_async_event(&event);
    core::log(fatal ? core::LogLevel::kError : core::LogLevel::kWarning, "verbs: " + sentence);
    if (fatal) tell_all(sentence);
  }
  if (error == EAGAIN || error == EINTR) return;
  // Removed from under us: the descriptor stays readable for ever.
  loop_.remove_fd(fd_);
  tell_all("the adapter was removed: " + std::string(std::strerror(error)));
}

void AsyncEvents::tell_all(const std::string& sentence) const {
  const std::lock_guard<std::mutex> lock(listeners().mutex);
  for (const auto& [context, on_fatal] : listeners().all) {
    if (context == context_) (*on_fatal)(sentence);
  }
}

}  // namespace farwrite::fabric::verbs
