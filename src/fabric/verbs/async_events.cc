#include "fabric/verbs/async_events.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "core/log.h"
#include "core/mutex.h"

namespace farwrite::fabric::verbs {
namespace {

struct Listeners {
  core::Mutex mutex{core::LockRank::kVerbs, 5};
  std::vector<std::pair<ibv_context*, const std::function<void(const std::string&)>*>> all
      FW_GUARDED_BY(mutex);
};

Listeners& listeners() {
  static auto* const instance = new Listeners;  // threads may use it until the process ends
  return *instance;
}

struct EventMeaning {
  const char* name;
  const char* text;
  bool fatal = false;
};

EventMeaning meaning_of(ibv_event_type event) {
  switch (event) {
    case IBV_EVENT_CQ_ERR:
      return {"CQ_ERR",
              "a completion queue has overrun and is lost; open the device again and report this",
              true};
    case IBV_EVENT_DEVICE_FATAL:
      return {"DEVICE_FATAL",
              "the adapter has failed or was removed; look at `dmesg`, reload its driver or "
              "restart the host, then open the device again",
              true};
    case IBV_EVENT_QP_FATAL:
      return {"QP_FATAL", "a queue pair has failed; its channel ends; look at `dmesg`"};
    case IBV_EVENT_QP_REQ_ERR:
      return {"QP_REQ_ERR",
              "the peer sent a request that its queue pair does not allow; its channel "
              "ends; run the same version of Farwrite on both sides"};
    case IBV_EVENT_QP_ACCESS_ERR:
      return {"QP_ACCESS_ERR",
              "the peer accessed memory without a valid right to it; its channel ends"};
    case IBV_EVENT_COMM_EST:
      return {"COMM_EST",
              "a queue pair has received before its connection was confirmed; nothing to "
              "do"};
    case IBV_EVENT_SQ_DRAINED:
      return {"SQ_DRAINED", "a send queue has run empty; nothing to do"};
    case IBV_EVENT_PATH_MIG:
      return {"PATH_MIG", "a connection has moved to its other path; nothing to do"};
    case IBV_EVENT_PATH_MIG_ERR:
      return {"PATH_MIG_ERR", "a connection could not move to its other path; look at the network"};
    case IBV_EVENT_PORT_ACTIVE:
      return {"PORT_ACTIVE", "the link is up; nothing to do"};
    case IBV_EVENT_PORT_ERR:
      return {
          "PORT_ERR",
          "the link is down; look at the cable, the switch and `rdma link`: transfers wait, and "
          "fail once their retries are used up"};
    case IBV_EVENT_LID_CHANGE:
      return {"LID_CHANGE",
              "the subnet manager has given the port another LID; connections break if "
              "they used the old one, connect again"};
    case IBV_EVENT_PKEY_CHANGE:
      return {"PKEY_CHANGE",
              "the subnet manager has changed the port's partition keys; if connections break, ask "
              "the fabric's administrator"};
    case IBV_EVENT_SM_CHANGE:
      return {"SM_CHANGE", "another subnet manager has taken over; nothing to do"};
    case IBV_EVENT_CLIENT_REREGISTER:
      return {"CLIENT_REREGISTER", "the subnet manager requests a new registration; nothing to do"};
    case IBV_EVENT_GID_CHANGE:
      return {"GID_CHANGE",
              "the port's addresses have changed; if the device's address is gone, open the device "
              "again"};
    case IBV_EVENT_SRQ_ERR:
      return {"SRQ_ERR", "a shared receive queue has failed; none is in use, look at `dmesg`"};
    case IBV_EVENT_SRQ_LIMIT_REACHED:
      return {"SRQ_LIMIT_REACHED", "a shared receive queue runs low; none is in use"};
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      return {"QP_LAST_WQE_REACHED", "a queue pair has taken its last receive; nothing to do"};
    case IBV_EVENT_WQ_FATAL:
      return {"WQ_FATAL", "a work queue has failed; none is in use, look at `dmesg`"};
  }
  return {nullptr, "an event that is unknown to this version; look at `dmesg`"};
}

// What the event is about, " port 1" or " queue pair 17", as far as it says.
std::string subject(const ibv_async_event& event) {
  switch (event.event_type) {
    case IBV_EVENT_PORT_ACTIVE:
    case IBV_EVENT_PORT_ERR:
    case IBV_EVENT_LID_CHANGE:
    case IBV_EVENT_PKEY_CHANGE:
    case IBV_EVENT_SM_CHANGE:
    case IBV_EVENT_CLIENT_REREGISTER:
    case IBV_EVENT_GID_CHANGE:
      return " port " + std::to_string(event.element.port_num);
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      if (event.element.qp == nullptr) return "";
      return " queue pair " + std::to_string(event.element.qp->qp_num);
    default:
      return "";
  }
}

}  // namespace

std::string describe_event(const ibv_async_event& event, const std::string& device, bool* fatal) {
  const EventMeaning meaning = meaning_of(event.event_type);
  if (fatal != nullptr) *fatal = meaning.fatal;
  const std::string name = meaning.name != nullptr
                               ? std::string("IBV_EVENT_") + meaning.name
                               : "event " + std::to_string(static_cast<int>(event.event_type));
  return device + subject(event) + ": " + meaning.text + " (" + name + ")";
}

AsyncEvents::AsyncEvents(core::EventLoop& loop, VerbsLibrary& library, ibv_context* context,
                         std::function<void(const std::string&)> on_fatal)
    : loop_(loop), library_(library), context_(context), on_fatal_(std::move(on_fatal)) {
  const core::Lock lock(listeners().mutex);
  listeners().all.emplace_back(context_, &on_fatal_);
}

AsyncEvents::~AsyncEvents() {
  if (fd_ >= 0) {
    loop_.remove_fd(fd_);
    (void)::close(fd_);
  }
  const core::Lock lock(listeners().mutex);
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
  const core::Lock lock(listeners().mutex);
  for (const auto& [context, on_fatal] : listeners().all) {
    if (context == context_) (*on_fatal)(sentence);
  }
}

}  // namespace farwrite::fabric::verbs
