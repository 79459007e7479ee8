#include "fabric/verbs/completion_queue.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>

#include "core/log.h"
#include "core/mutex.h"

namespace farwrite::fabric::verbs {
namespace {

constexpr int kEntries = 8192;  // of one adapter's queue, where it allows so many
constexpr int kAtOnce = 32;

Status refused(std::string_view what, int error) {
  return Status::system_error(StatusCode::kResourceExhausted, {"connect", "", "verbs"}, what, error,
                              "close channels, or use fewer lanes; the adapter's limits are in "
                              "`ibv_devinfo -v`");
}

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
              "the peer's adapter denies access: the peer's memory was closed while the operation "
              "was in flight, or the operation leaves it",
              "do not use memory of a peer that has closed it; the channel has ended, connect "
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

Result<std::unique_ptr<CompletionQueue>> CompletionQueue::create(VerbsLibrary& library,
                                                                 ibv_context* context,
                                                                 int max_entries) {
  std::unique_ptr<CompletionQueue> queue(new CompletionQueue(library, context, max_entries));
  queue->channel_ = library.create_comp_channel(context);
  if (queue->channel_ == nullptr) return refused("no completion channel", errno);
  const int flags = ::fcntl(queue->channel_->fd, F_GETFL);
  if (flags < 0 || ::fcntl(queue->channel_->fd, F_SETFL, flags | O_NONBLOCK) != 0) {
    return refused("the completion channel cannot be made non-blocking", errno);
  }
  return queue;
}

CompletionQueue::~CompletionQueue() {
  arm();  // takes and acknowledges what events are left: the queues' end waits for that
  for (const Queue& queue : queues_) (void)library_.destroy_cq(queue.queue);
  if (channel_ != nullptr) (void)library_.destroy_comp_channel(channel_);
}

Result<CompletionQueue::QueueShare> CompletionQueue::add(QueueClient& client,
                                                         std::uint32_t entries) {
  const core::Lock lock(mutex_);
  const auto most = static_cast<std::uint32_t>(std::min(kEntries, max_entries_));
  auto found = std::find_if(queues_.begin(), queues_.end(),
                            [&](const Queue& queue) { return queue.used + entries <= most; });
  if (found == queues_.end()) {
    Queue queue;
    queue.queue = library_.create_cq(context_, static_cast<int>(std::max(most, entries)), channel_);
    if (queue.queue == nullptr) return refused("no completion queue", errno);
    found = queues_.insert(queues_.end(), queue);
  }
  found->used += entries;
  const QueueShare share{found->queue, next_client_++, entries};
  clients_.emplace(share.client, &client);
  return share;
}

void CompletionQueue::remove(const QueueShare& share) {
  const core::Lock lock(mutex_);
  clients_.erase(share.client);
  for (Queue& queue : queues_) {
    if (queue.queue == share.queue) queue.used -= share.entries;
  }
}

void CompletionQueue::look() {
  const core::Lock lock(mutex_);
  look_locked();
}

void CompletionQueue::try_look() {
  if (!mutex_.try_lock()) return;
  const core::Lock lock(mutex_, std::adopt_lock);
  look_locked();
}

void CompletionQueue::look_locked() {
  std::vector<QueueClient*> touched;
  std::array<ibv_wc, kAtOnce> completions;
  for (const Queue& queue : queues_) {
    int count = kAtOnce;
    while (count == kAtOnce) {
      count = library_.poll_cq(queue.queue, kAtOnce, completions.data());
      for (int i = 0; i < count; ++i) {
        const ibv_wc& completion = completions[static_cast<std::size_t>(i)];
        const auto found = clients_.find(static_cast<std::uint32_t>(completion.wr_id >> 32));
        if (found == clients_.end()) continue;  // of a lane that has gone
        found->second->on_work(completion, static_cast<std::uint32_t>(completion.wr_id));
        if (std::find(touched.begin(), touched.end(), found->second) == touched.end()) {
          touched.push_back(found->second);
        }
      }
      // Now and not at the end: there may be no end while others take and send, and what a lane
      // has received wants new receives.
      for (QueueClient* client : touched) client->on_looked_at();
      touched.clear();
    }
    if (count < 0 && !unreadable_) {
      unreadable_ = true;
      core::log(core::LogLevel::kError, "verbs: a completion queue cannot be read");
    }
  }
}

void CompletionQueue::arm() {
  const core::Lock lock(mutex_);
  if (channel_ == nullptr) return;
  ibv_cq* rung = nullptr;
  while (library_.get_cq_event(channel_, &rung) == 0) library_.ack_cq_events(rung, 1);
  for (const Queue& queue : queues_) (void)library_.req_notify_cq(queue.queue);
}

}  // namespace farwrite::fabric::verbs
