#include "fabric/verbs/cm_channel.h"

#include <fcntl.h>
#include <poll.h>

#include <cerrno>
#include <cstring>

#include "fabric/attach_request.h"

namespace farwrite::fabric::verbs {
namespace {

std::string_view remedy_of(rdma_cm_event_type event) {
  switch (event) {
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR:
      return "check that both hosts' RDMA interfaces are in one network (ip route get, rping)";
    case RDMA_CM_EVENT_UNREACHABLE:
    case RDMA_CM_EVENT_CONNECT_ERROR:
      return "check link, firewall (RoCE v2 is UDP port 4791) and MTU on the path; try rping";
    case RDMA_CM_EVENT_REJECTED:
      return "see the peer's log; the peer may have stopped connecting, or closed its device";
    default:
      return "see the peer's log, and connect again";
  }
}

}  // namespace

Result<std::unique_ptr<CmChannel>> CmChannel::create(VerbsLibrary& library) {
  std::unique_ptr<CmChannel> channel(new CmChannel(library));
  channel->channel_ = library.create_event_channel();
  if (channel->channel_ != nullptr) {
    const int flags = ::fcntl(channel->channel_->fd, F_GETFL);
    if (flags >= 0 && ::fcntl(channel->channel_->fd, F_SETFL, flags | O_NONBLOCK) == 0) {
      return channel;
    }
  }
  return Status::system_error(StatusCode::kUnavailable, {"connect", "", "verbs"},
                              "no rdma_cm event channel", errno,
                              "load the kernel module rdma_ucm; /dev/infiniband/rdma_cm must be "
                              "readable and writable");
}

CmChannel::~CmChannel() {
  if (channel_ != nullptr) library_.destroy_event_channel(channel_);
}

std::optional<CmEvent> CmChannel::take() {
  rdma_cm_event* raw = nullptr;
  if (library_.get_cm_event(channel_, &raw) != 0) return std::nullopt;
  CmEvent event;
  event.type = raw->event;
  event.status = raw->status;
  event.id = raw->id;
  const rdma_conn_param& parameters = raw->param.conn;
  if (raw->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
    const auto* data = static_cast<const std::byte*>(parameters.private_data);
    if (data != nullptr) event.private_data.assign(data, data + parameters.private_data_len);
    event.responder_resources = parameters.responder_resources;
    event.initiator_depth = parameters.initiator_depth;
  }
  (void)library_.ack_cm_event(raw);
  return event;
}

Result<CmEvent> CmChannel::expect(rdma_cm_event_type wanted, const rdma_cm_id* id,
                                  core::Deadline deadline, const std::function<bool()>& abandoned,
                                  std::string_view operation, const std::string& peer) {
  while (true) {
    if (std::optional<CmEvent> event = take()) {
      if (event->id != id) {
        passed_over_.push_back(*std::move(event));
        continue;
      }
      if (event->type == wanted) return *std::move(event);
      std::string cause = library_.cm_event_text(event->type);
      if (event->status != 0) {
        cause += " (" + std::to_string(event->status) + ")";
        if (event->status < 0) cause += std::string(": ") + std::strerror(-event->status);
      }
      return Status::error(StatusCode::kUnavailable, {operation, peer, "verbs"}, cause,
                           remedy_of(event->type));
    }
    const bool given_up = abandoned && abandoned();
    if (given_up || deadline.expired()) {
      return Status::error(
          StatusCode::kUnavailable, {operation, peer, "verbs"},
          given_up ? "the peer stopped connecting over verbs" : "rdma_cm did not answer in time",
          remedy_of(RDMA_CM_EVENT_UNREACHABLE));
    }
    pollfd waiting{channel_->fd, POLLIN, 0};
    const core::Deadline turn = deadline.earlier(core::Deadline::after(kAskAgain));
    (void)::poll(&waiting, 1, turn.poll_timeout_ms());
  }
}

}  // namespace farwrite::fabric::verbs
