#include "peer/peers.h"

#include <chrono>
#include <cstring>
#include <utility>

#include "base/own_address.h"
#include "base/work_queue.h"
#include "core/mutex.h"
#include "stats/stats.h"
#include "tensorflow/core/platform/env.h"
#include "tensorflow/core/platform/logging.h"

namespace farwrite::plugin {
namespace {

constexpr std::uint64_t kConnectTimeout = 10'000'000'000;  // ns
// Longer than the above: the peer's attempt ends first, with a reason.
constexpr std::int64_t kAwaitTimeout = 15'000'000;  // us
constexpr std::uint64_t kForever = UINT64_MAX;

void count_slot(int opened) { count(opened != 0 ? stats().slots_opened : stats().slots_refused); }

void run_later(std::uint64_t delay_ns, void (*work)(void*), void* work_context) {
  const auto run = [work, work_context] { work(work_context); };
  if (delay_ns > 0) {
    // Records go out, which waits for nothing.
    WorkQueue::of_process().submit_after(std::chrono::microseconds(delay_ns / 1000), run);
  } else {
    tsl::Env::Default()->SchedClosure(run);  // a thread of its own: it may wait for the peer
  }
}

}  // namespace

struct Peers::ServedPeer {
  Peers& peers;
  const std::shared_ptr<PeerProcess> process;
};

Peers::Peers(fw_device* device, Receivers receivers, const std::string& own_host,
             bool fabric_is_forced)
    : device_(device), receivers_(std::move(receivers)), fabric_is_forced_(fabric_is_forced) {
  own_.struct_size = sizeof(own_);
  fw_device_identity(device, &own_);
  const std::string told = advertised(own_.endpoint, own_host);
  if (told.size() < sizeof(own_.endpoint)) std::strcpy(own_.endpoint, told.c_str());
}

bool Peers::connects_to(const fw_identity& peer) const {
  const bool own_is_hidden = is_loopback(own_.endpoint);
  if (own_is_hidden != is_loopback(peer.endpoint)) return own_is_hidden;
  return ProcessId::of(own_) < ProcessId::of(peer);
}

bool Peers::connected(const ProcessId& peer) const {
  if (peer == ProcessId::of(own_)) return true;
  const core::Lock lock(mutex_);
  const auto found = met_.find(peer);
  return found != met_.end() && found->second.reach.process != nullptr;
}

void Peers::reach(const std::string& task, const fw_identity& peer, Reached reached) {
  const ProcessId id = ProcessId::of(peer);
  if (id == ProcessId::of(own_)) {
    Reach self;
    self.loopback = true;
    reached(self);
    return;
  }
  Reach known;
  std::uint64_t attempt = 0;
  {
    const core::Lock lock(mutex_);
    MetPeer& met = met_[id];
    met.task = task;
    met.endpoint = peer.endpoint;
    if (!met.settled) {
      met.waiting.push_back(std::move(reached));
      if (met.attempt != 0) return;
      attempt = met.attempt = ++attempts_;
    } else {
      known = met.reach;
    }
  }
  if (attempt == 0) {
    reached(known);
  } else if (connects_to(peer)) {
    tsl::Env::Default()->SchedClosure([this, peer] { connect(peer); });
  } else {
    tsl::Env::Default()->SchedClosureAfter(kAwaitTimeout,
                                           [this, id, attempt] { give_up(id, attempt); });
  }
}

void Peers::connect(const fw_identity& peer) {
  const ProcessId id = ProcessId::of(peer);
  fw_channel* channel = nullptr;
  const FwStatus status(fw_device_connect(device_, peer.endpoint, kConnectTimeout, &channel));
  if (status == nullptr) {
    const fw_peer_info actual = peer_of(channel);
    if (ProcessId::of(actual.identity) == id) {
      serve(actual, channel);
      return;
    }
    close_soon(channel);
  }
  Reach failed;
  failed.refusal = status == nullptr ? "another process answers at " + std::string(peer.endpoint)
                                     : message_of(status);
  if (is_loopback(peer.endpoint)) {
    failed.refusal +=
        "; the peer's device accepts connections only from its own host: if the peer runs on "
        "another host, set FARWRITE_LISTEN there to an address of that host";
  }
  settle(id, std::move(failed));
}

void Peers::refused_by(const std::string& task, const ProcessId& peer, const std::string& reason) {
  {
    const core::Lock lock(mutex_);
    met_[peer].task = task;
  }
  Reach refused;
  refused.refusal = reason.empty() ? "the peer refused" : reason;
  settle(peer, std::move(refused));
}

void Peers::settle(const ProcessId& id, Reach reach) {
  std::string task;
  std::vector<Reached> waiting;
  {
    const core::Lock lock(mutex_);
    MetPeer& met = met_[id];
    if (met.settled) return;
    met.settled = true;
    met.reach = reach;
    waiting.swap(met.waiting);
    task = met.task;
  }
  LOG(WARNING) << "Farwrite: no channel to " << task << ", "
               << (fabric_is_forced_ ? "and FARWRITE_FABRICS allows no other transport: "
                                     : "its tensors go over gRPC: ")
               << reach.refusal;
  for (const Reached& reached : waiting) reached(reach);
}

void Peers::give_up(const ProcessId& id, std::uint64_t attempt) {
  std::vector<Reached> waiting;
  {
    const core::Lock lock(mutex_);
    const auto found = met_.find(id);
    if (found == met_.end() || found->second.settled || found->second.attempt != attempt) {
      return;
    }
    waiting.swap(found->second.waiting);
    met_.erase(found);  // the next tensor tries again
  }
  Reach unclear;
  unclear.unclear = true;
  unclear.refusal = "the peer announced a connection and did not connect";
  for (const Reached& reached : waiting) reached(unclear);
}

void Peers::accept_loop() {
  while (true) {
    fw_channel* channel = nullptr;
    const FwStatus status(fw_device_accept(device_, kForever, &channel));
    if (status != nullptr) {
      LOG(WARNING) << "Farwrite: this task accepts no more peers: " << message_of(status);
      return;
    }
    serve(peer_of(channel), channel);
  }
}

// A channel that is there outweighs whatever was decided before: the peer pushes on it.
void Peers::serve(const fw_peer_info& peer, fw_channel* channel) {
  const auto process = std::make_shared<PeerProcess>(peer, channel);
  const ProcessId& id = process->id();
  // Before other threads see the channel: what is sent without an engine lacks its tag, and the
  // peer treats that as a breach of the protocol.
  auto* const context = new ServedPeer{*this, process};
  fw_tensor_handlers handlers{};
  handlers.struct_size = sizeof(handlers);
  handlers.on_message = &on_message;
  handlers.on_end = &on_end;
  handlers.on_landing = &on_landing;
  handlers.on_slot = &count_slot;
  handlers.run_later = &run_later;
  const FwStatus status(fw_channel_serve_tensors(channel, &handlers, context));
  if (status != nullptr) on_end(context, 0, status.get());
  Reach reach;
  reach.process = process;
  std::vector<Reached> waiting;
  {
    const core::Lock lock(mutex_);
    MetPeer& met = met_[id];
    met.settled = true;
    met.attempt = 0;
    met.reach = reach;
    if (met.endpoint.empty()) met.endpoint = process->endpoint();
    waiting.swap(met.waiting);
    // Then on_end() has found nothing to forget.
    if (process->ended()) met_.erase(id);
  }
  LOG(INFO) << "Farwrite: tensors to and from " << process->name() << " go over "
            << process->fabric() << ": " << process->fabric_reason();
  for (const Reached& reached : waiting) reached(reach);
}

absl::Status Peers::take(const fw_notification& notification,
                         const std::shared_ptr<PeerProcess>& process) {
  RemoteBytes lent(notification.lent, process->lane_of(fw_remote_bytes(notification.lent)));
  const auto receiver = receivers_.find(notification.tag);
  if (receiver == receivers_.end()) {
    return absl::InvalidArgumentError("it sent a message with the unknown tag " +
                                      std::to_string(notification.tag));
  }
  const std::string_view message(static_cast<const char*>(notification.message),
                                 notification.message_bytes);
  return receiver->second->take(process, message, std::move(lent));
}

void Peers::on_message(void* context, const fw_notification* message) {
  const auto& [peers, process] = *static_cast<ServedPeer*>(context);
  const absl::Status taken = peers.take(*message, process);
  if (!taken.ok()) peers.broken(process, taken.message());
}

void Peers::on_landing(void* context, const fw_landing* landing) {
  const auto& [peers, process] = *static_cast<ServedPeer*>(context);
  const absl::Status taken = peers.receivers_.at(kLanded)->take_landed(process, *landing);
  if (!taken.ok()) peers.broken(process, taken.message());
}

void Peers::on_end(void* context, int good_order, const fw_status* reason) {
  const std::unique_ptr<ServedPeer> served(static_cast<ServedPeer*>(context));
  const char* const how = good_order != 0 ? " has closed its device: " : " is gone: ";
  served->peers.ended(served->process, how + std::string(fw_status_message(reason)));
}

void Peers::broken(const std::shared_ptr<PeerProcess>& process, std::string_view how) {
  LOG(ERROR)
      << "Farwrite: the peer " << process->name()
      << " broke the protocol, so its channel is closed; its plug-in may be of another version: "
      << how;
  ended(process, " broke the protocol: " + std::string(how));
}

void Peers::ended(const std::shared_ptr<PeerProcess>& process, const std::string& what) {
  process->end();
  {
    // A later start of the peer has another epoch; the same one may connect again.
    const core::Lock lock(mutex_);
    const auto found = met_.find(process->id());
    if (found != met_.end() && found->second.reach.process == process) met_.erase(found);
  }
  const absl::Status why = absl::UnavailableError("Farwrite: the peer " + process->name() + what);
  for (const auto& [tag, receiver] : receivers_) receiver->peer_ended(process, why);
}

std::vector<std::shared_ptr<PeerProcess>> Peers::processes() const {
  std::vector<std::shared_ptr<PeerProcess>> processes;
  const core::Lock lock(mutex_);
  for (const auto& [id, met] : met_) {
    if (met.reach.process != nullptr) processes.push_back(met.reach.process);
  }
  return processes;
}

const void* Peers::receipt() {
  std::call_once(receipt_made_, [this] { receipt_ = fw_device_allocate(device_, kReceiptBytes); });
  return receipt_;
}

std::string Peers::links_json() const {
  std::string text = "[";
  const core::Lock lock(mutex_);
  for (const auto& [id, met] : met_) {
    if (text.size() > 1) text += ',';
    text += "{\"peer\":" + json_quoted(met.endpoint);
    const bool open = met.reach.process != nullptr;
    text += ",\"transport\":\"";
    text += open ? "farwrite" : met.settled ? "grpc" : "pending";
    text += "\",\"fabric\":" + json_quoted(open ? met.reach.process->fabric() : "");
    text += ",\"reason\":" +
            json_quoted(open ? met.reach.process->fabric_reason() : met.reach.refusal) + "}";
  }
  return text + "]";
}

}  // namespace farwrite::plugin
