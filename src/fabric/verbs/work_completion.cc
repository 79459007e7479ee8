#include "fabric/verbs/work_completion.h"

#include <array>
#include <cstdio>

namespace farwrite::fabric::verbs {
namespace {

struct Meaning {
  StatusCode code;
  const char* cause;
  const char* remedy;
};

constexpr const char* kReport =
    "report this with the output of `farwrite info`; until then, leave verbs out of fabrics";
constexpr const char* kSameVersion =
    "run the same version of Farwrite on both sides; if it is the same, report this";
constexpr const char* kLookAtAdapter =
    "look at `dmesg` and at the adapter's firmware and driver on both hosts";
constexpr const char* kLookAtWay =
    "check that the peer's process and host still run; then, on both hosts, that `rdma link` shows "
    "ACTIVE, that the interface's address answers `ping`, that no firewall stops UDP port 4791 "
    "(RoCE v2), that the MTU is the same on the whole path, and that the switches drop no packets "
    "(PFC or ECN, docs/how-to/rdma.md)";

Meaning meaning_of(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_SUCCESS:
      return {StatusCode::kOk, "", ""};
    case IBV_WC_LOC_LEN_ERR:
      return {StatusCode::kProtocolError,
              "a message is longer than the receive that took it, or than the port carries",
              kSameVersion};
    case IBV_WC_LOC_QP_OP_ERR:
      return {StatusCode::kInternal, "the adapter does not accept the work request", kReport};
    case IBV_WC_LOC_PROT_ERR:
      return {StatusCode::kInternal,
              "the local memory is not registered with the adapter, or not for this use", kReport};
    case IBV_WC_WR_FLUSH_ERR:
      return {StatusCode::kPeerDead,
              "the queue pair has ended before the work request's turn: by an earlier failure, "
              "which is the cause to look for, or because the peer has disconnected",
              "look for the first error of this channel on both sides, then connect again"};
    case IBV_WC_BAD_RESP_ERR:
      return {StatusCode::kProtocolError, "the peer's adapter sent an invalid answer",
              kLookAtAdapter};
    case IBV_WC_LOC_ACCESS_ERR:
      return {StatusCode::kProtocolError,
              "the received data may not be written to its target memory", kSameVersion};
    case IBV_WC_REM_INV_REQ_ERR:
      return {StatusCode::kProtocolError,
              "the peer's adapter rejects the request as invalid: an operation or a length that "
              "its queue pair does not allow",
              kSameVersion};
    case IBV_WC_REM_ACCESS_ERR:
      return {StatusCode::kPermissionDenied,
              "the peer's adapter denies access: the peer's region was closed while the operation "
              "was in flight, or the operation leaves the region",
              "do not use a region of a peer that has closed it; the channel has ended, connect "
              "again"};
    case IBV_WC_REM_OP_ERR:
      return {StatusCode::kUnavailable,
              "the peer's adapter failed while it carried out the request",
              "look at `dmesg` and at the adapter's firmware and driver on the peer's host"};
    case IBV_WC_RETRY_EXC_ERR:
      return {StatusCode::kPeerDead,
              "the peer's adapter no longer acknowledges requests, and all retries are used up",
              kLookAtWay};
    case IBV_WC_RESP_TIMEOUT_ERR:
      return {StatusCode::kPeerDead, "the peer's adapter has not answered in time", kLookAtWay};
    case IBV_WC_REM_ABORT_ERR:
      return {StatusCode::kPeerDead, "the peer has aborted the operation",
              "look for the first error of this channel on the peer's side, then connect again"};
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return {
          StatusCode::kInternal,
          "the peer had no receive posted for a message, although the credits guarantee a posted "
          "receive",
          "leave the verbs option rnr_retry_count at 7, on both sides; if it was 7, report this"};
    case IBV_WC_FATAL_ERR:
      return {StatusCode::kUnavailable, "the adapter has failed",
              "look at `dmesg`, then reload the adapter's driver or restart the host"};
    case IBV_WC_GENERAL_ERR:
      return {StatusCode::kUnavailable, "the adapter reports an error that it does not name",
              kLookAtAdapter};
    case IBV_WC_MW_BIND_ERR:  // memory windows; then reliable datagrams, tag matching
    case IBV_WC_LOC_EEC_OP_ERR:
    case IBV_WC_LOC_RDD_VIOL_ERR:
    case IBV_WC_REM_INV_RD_REQ_ERR:
    case IBV_WC_INV_EECN_ERR:
    case IBV_WC_INV_EEC_STATE_ERR:
    case IBV_WC_TM_ERR:
    case IBV_WC_TM_RNDV_INCOMPLETE:
      return {StatusCode::kInternal, "the adapter reports an error of a feature that is not in use",
              kLookAtAdapter};
  }
  return {StatusCode::kInternal, "the adapter reports an error that is unknown to this version",
          kReport};
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

Status status_of(VerbsLibrary& library, const ibv_wc& completion, std::string_view operation,
                 const WorkPlace& place) {
  if (completion.status == IBV_WC_SUCCESS) return {};
  const Meaning meaning = meaning_of(completion.status);
  const char* const text = library.wc_status_text(completion.status);
  std::array<char, 32> vendor{};
  std::snprintf(vendor.data(), vendor.size(), "0x%x", completion.vendor_err);
  std::string cause = meaning.cause;
  cause += " (" + std::string(text != nullptr ? text : "unknown");
  cause += ", status " + std::to_string(completion.status);
  cause += ", vendor error " + std::string(vendor.data());
  cause += ", on " + place.device + ", lane " + std::to_string(place.lane) + ")";
  return Status::error(meaning.code, {operation, place.peer, "verbs"}, cause, meaning.remedy);
}

bool means_peer_gone(ibv_wc_status status) {
  return status != IBV_WC_SUCCESS && meaning_of(status).code == StatusCode::kPeerDead;
}

std::string describe_event(const ibv_async_event& event, const std::string& device, bool* fatal) {
  const EventMeaning meaning = meaning_of(event.event_type);
  if (fatal != nullptr) *fatal = meaning.fatal;
  const std::string name = meaning.name != nullptr
                               ? std::string("IBV_EVENT_") + meaning.name
                               : "event " + std::to_string(static_cast<int>(event.event_type));
  return device + subject(event) + ": " + meaning.text + " (" + name + ")";
}

}  // namespace farwrite::fabric::verbs
