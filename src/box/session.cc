#include "box/session.h"

#include <chrono>
#include <cstring>
#include <string>
#include <utility>

#include "box/memory_used_up.h"
#include "box/server_state.h"
#include "core/log.h"
#include "core/mutex.h"
#include "core/with_memory.h"
#include "device/channel_state.h"

namespace farwrite::box {
namespace {

// How long a change waits for memory that other changes hold.
constexpr std::chrono::nanoseconds kMemoryTimeout = std::chrono::seconds(30);

}  // namespace

void Session::run() {
  // The callback of a box's lease only drops memory, so this thread may run it. A poller would be
  // woken for each lease, beside this thread.
  channel_.take_returns(true);
  while (true) {
    std::optional<ReceivedRequest> received = std::exchange(ahead_, std::nullopt);
    if (!received.has_value()) {
      Result<Notification> notification = channel_.wait_notification();
      if (!notification.ok()) break;
      Result<ReceivedRequest> read = receive_request(*std::move(notification));
      if (!read.ok()) {
        log_end(read.status());
        break;
      }
      received = *std::move(read);
    }
    start(*received, true);
    take_ahead();
    handle(*received);
    if (bytes_lost_ || closing_.load()) break;
  }
  channel_.take_returns(false);
  leave();
  ended_.store(true, std::memory_order_release);
}

void Session::turn_away(const Status& reason) { channel_.state_->give_up(reason); }

void Session::log_end(const Status& reason) const {
  core::log(core::LogLevel::kWarning,
            "box: the connection to " + channel_.peer_name() + " ends: " + reason.message());
}

Result<Session::ReceivedRequest> Session::receive_request(Notification notification) {
  Result<Request> request =
      Request::decode({notification.message.data(), notification.message.size()});
  if (!request.ok()) return request.status();
  ReceivedRequest received;
  received.request = *std::move(request);
  received.lent = std::move(notification.lent);
  return received;
}

void Session::start(ReceivedRequest& received, bool patient) {
  if (received.request.verb != Verb::kChange) return;
  ChangeFields& change = received.request.change;
  if (received.segment == nullptr && received.status.ok()) {
    const Result<std::shared_ptr<HostedSegment>> segment =
        server_.table().find(received.request.key);
    received.status = segment.ok() ? segment.value()->check(change) : segment.status();
    if (!received.status.ok()) return;
    received.segment = segment.value();
    const bool lends = received.lent.valid();
    const std::uint64_t given = lends ? received.lent.size() : received.request.bytes.size();
    if (change.x_key == 0 && takes_memory(change.operation) && given != change.length) {
      received.status =
          Status::error(StatusCode::kInvalidArgument, {.operation = "change a segment"},
                        "the request brings " + std::to_string(given) + " bytes for a range of " +
                            std::to_string(change.length),
                        "run the same release on both sides");
      return;
    }
  }
  const bool has_to_read = received.lent.valid() && !channel_.maps_peer_memory();
  if (!received.status.ok() || !has_to_read || received.read.has_value()) return;
  // Between hosts the bytes arrive wholly before the segment changes. A write of the whole segment
  // arrives where it stays.
  MutableByteView destination;
  if (change.operation == Operation::kWrite && change.length == received.segment->bytes()) {
    received.draft = received.segment->draft();
  }
  if (received.draft.has_value()) {
    destination = received.segment->draft_bytes(*received.draft);
  } else if (patient) {
    Result<Workspace::ScratchMemory> piece =
        server_.workspace().take(change.length, kMemoryTimeout);
    if (!piece.ok()) {
      received.status = piece.status();
      return;
    }
    received.piece.emplace(*std::move(piece));
  } else if (std::optional<Workspace::ScratchMemory> piece =
                 server_.workspace().try_take(change.length)) {
    received.piece.emplace(*std::move(piece));
  } else {
    return;
  }
  if (received.piece.has_value()) destination = received.piece->bytes();
  received.read =
      channel_.read({destination.data, static_cast<std::size_t>(change.length)}, received.lent);
}

void Session::take_ahead() {
  Result<std::optional<Notification>> notification = channel_.try_notification();
  // An end shows again at the next wait.
  if (!notification.ok() || !notification.value().has_value()) return;
  Result<ReceivedRequest> received = receive_request(*std::move(notification.value()));
  if (!received.ok()) {
    log_end(received.status());
    // The thread goes on to its next wait, which ends with it.
    static_cast<void>(channel_.close());
    return;
  }
  ahead_ = *std::move(received);
  start(*ahead_, false);
}

void Session::give_up(ReceivedRequest received) {
  if (!received.read.has_value()) return;
  // A client that was stopped keeps the read under way as long as its channel lives.
  const Completion read = *std::exchange(received.read, std::nullopt);
  read.on_settled(
      [given_up = std::make_shared<ReceivedRequest>(std::move(received))](const Status&) {
        if (given_up->draft.has_value()) given_up->segment->drop(*given_up->draft);
      });
}

void Session::lose(std::uint64_t request, Status status) {
  server_.count_refusal();
  bytes_lost_ = !send({.id = request, .status = std::move(status)}).ok();
}

void Session::handle(ReceivedRequest& received) {
  const Request& request = received.request;
  switch (request.verb) {
    case Verb::kCreate:
      create(received);
      return;
    case Verb::kAttachName:
      wait_name(request);
      return;
    case Verb::kAttachKey:
      attach(request.id, server_.table().attach(request.key));
      return;
    case Verb::kDetach:
      detach(request.key);
      return;
    case Verb::kFree: {
      const std::shared_ptr<HostedSegment> segment = find(request);
      if (segment == nullptr) return;
      if (Status status = server_.table().free(segment); !status.ok()) {
        return refuse(request.id, std::move(status));
      }
      reply({.id = request.id, .key = request.key});
      return;
    }
    case Verb::kList:
      list(request.id);
      return;
    case Verb::kDescribe:
      describe(request);
      return;
    case Verb::kChange:
      change(received);
      return;
    case Verb::kWaitVersion:
      wait_version(request);
      return;
    case Verb::kCancel:
      cancel(request.number);
      return;
    case Verb::kLease:
      lease(request);
      return;
    case Verb::kRelease:
      release(request.number);
      return;
    case Verb::kOpenBuffer:
      open_buffer(request);
      return;
  }
}

std::shared_ptr<HostedSegment> Session::find(const Request& request) {
  Result<std::shared_ptr<HostedSegment>> segment = server_.table().find(request.key);
  if (segment.ok()) return *std::move(segment);
  refuse(request.id, segment.status());
  return nullptr;
}

void Session::change(ReceivedRequest& received) {
  const Request& request = received.request;
  if (!received.status.ok()) return refuse(request.id, std::move(received.status));
  HostedSegment::Sources sources;
  for (const auto& [key, source] :
       {std::pair(request.change.x_key, &sources.x), std::pair(request.change.y_key, &sources.y)}) {
    if (key == 0) continue;
    const Result<std::shared_ptr<HostedSegment>> found = server_.table().find(key);
    if (!found.ok()) {
      refuse(request.id, found.status());
      return give_up(std::move(received));
    }
    *source = found.value();
  }
  const Operation operation = request.change.operation;
  if ((operation == Operation::kSwap && sources.x == nullptr) ||
      (operation == Operation::kAxpy && sources.y == nullptr)) {
    refuse(request.id,
           Status::error(StatusCode::kInvalidArgument, {.operation = "change a segment"},
                         "the operation needs another segment as its source", "give its key"));
    return give_up(std::move(received));
  }
  Alias alias;
  sources.memory = {request.bytes.data(), request.bytes.size()};
  if (received.read.has_value()) {
    if (Status status = received.read->wait(); !status.ok()) {
      lose(request.id, std::move(status));
      return give_up(std::move(received));
    }
    if (received.piece.has_value()) sources.memory = received.piece->bytes();
    sources.draft = std::exchange(received.draft, std::nullopt);
  } else if (received.lent.valid()) {
    Result<Alias> mapped = channel_.alias(received.lent, 0, received.lent.size());
    if (!mapped.ok()) return lose(request.id, mapped.status());
    alias = *std::move(mapped);
    sources.memory = {alias.data(), alias.size()};
  }
  Result<HostedSegment::ChangeResult> result =
      received.segment->apply(request.change, sources, server_.loop());
  // The client may use its memory again as soon as it reads the answer.
  alias = Alias();
  received.lent = RemoteRegion();
  received.piece.reset();
  if (!result.ok()) return refuse(request.id, result.status());
  server_.count(result.value());
  reply({.id = request.id,
         .key = request.key,
         .version = result->id,
         .buffer = result->buffer,
         .row = result->row});
}

void Session::wait_version(const Request& request) {
  const std::shared_ptr<HostedSegment> segment = find(request);
  if (segment == nullptr) return;
  {
    const core::Lock lock(mutex_);
    waits_[request.id] = {.segment = segment};
  }
  const std::uint64_t id = segment->wait(
      {.epoch = request.epoch, .version = request.number},
      [weak = weak_from_this(), number = request.id](const Result<VersionId>& version) {
        if (const auto session = weak.lock()) session->answer_wait(number, version);
      });
  const core::Lock lock(mutex_);
  if (const auto wait = waits_.find(request.id); wait != waits_.end()) wait->second.id = id;
}

void Session::answer_wait(std::uint64_t request, const Result<VersionId>& version) {
  if (!take_wait(request)) return;
  if (!version.ok()) return refuse(request, version.status());
  reply({.id = request, .version = version.value()});
}

bool Session::take_wait(std::uint64_t request) {
  const core::Lock lock(mutex_);
  return waits_.erase(request) > 0;
}

void Session::wait_name(const Request& request) {
  if (request.number == 0) {
    attach(request.id, server_.table().attach(request.name));
    return;
  }
  {
    const core::Lock lock(mutex_);
    waits_[request.id] = {};
  }
  SegmentDirectory& table = server_.table();
  const std::uint64_t id =
      table.await(request.name, [&table, weak = weak_from_this(), number = request.id](
                                    const std::shared_ptr<HostedSegment>& segment) {
        const auto session = weak.lock();
        if (session == nullptr || !session->take_wait(number)) return table.detach(segment);
        session->attach(number, segment);
      });
  const core::Lock lock(mutex_);
  if (const auto wait = waits_.find(request.id); wait != waits_.end()) wait->second.id = id;
}

void Session::cancel(std::uint64_t request) {
  ServedWait wait;
  {
    const core::Lock lock(mutex_);
    const auto found = waits_.find(request);
    if (found == waits_.end()) return;
    wait = std::move(found->second);
    waits_.erase(found);
  }
  stop(wait);
}

void Session::stop(const ServedWait& wait) {
  if (wait.segment != nullptr) {
    wait.segment->stop_waiting(wait.id);
  } else {
    server_.table().stop_awaiting(wait.id);
  }
}

void Session::lease(const Request& request) {
  const std::shared_ptr<HostedSegment> segment = find(request);
  if (segment == nullptr) return;
  Result<Pin> pin = segment->pin([weak = weak_from_this()] {
    const auto session = weak.lock();
    return session != nullptr && session->holds_silently();
  });
  if (!pin.ok()) return refuse(request.id, pin.status());
  const auto held = std::make_shared<Pin>(*std::move(pin));
  server_.count_lease();  // before the client can know of it
  const std::uint64_t lease = next_lease_++;
  // Those that came back without a RELEASE.
  std::erase_if(leases_, [](const auto& entry) { return entry.second.expired(); });
  leases_.emplace(lease, held);
  const std::vector<std::byte> message =
      Reply{.id = request.id, .key = request.key, .version = held->id(), .number = lease}.encode();
  const Completion sent = channel_.lend({message.data(), message.size()}, held->bytes(), [held] {});
  if (sent.done() && !sent.wait().ok()) refuse(request.id, sent.wait());
}

void Session::release(std::uint64_t lease) {
  const auto found = leases_.find(lease);
  if (found == leases_.end()) return;
  if (const std::shared_ptr<Pin> pin = found->second.lock()) *pin = Pin();
  leases_.erase(found);
}

void Session::open_buffer(const Request& request) {
  const std::shared_ptr<HostedSegment> segment = find(request);
  if (segment == nullptr) return;
  if (request.number == 0) {
    lend_region({.id = request.id, .key = request.key}, segment->state());
    return;
  }
  const Result<MemoryRegion> region = segment->buffer(request.number);
  if (!region.ok()) return refuse(request.id, region.status());
  lend_region({.id = request.id, .key = request.key, .buffer = request.number}, region.value());
}

void Session::list(std::uint64_t request) {
  std::vector<std::byte> body;
  Status listed = core::with_memory({.operation = "list a box"}, "the list", [&] {
    std::vector<SegmentInfo> infos;
    for (const std::shared_ptr<HostedSegment>& segment : server_.table().all()) {
      infos.push_back(listed_info(*segment));
    }
    body = encode_infos(infos);
  });
  if (!listed.ok()) return refuse(request, std::move(listed));
  reply_with({.id = request}, std::move(body));
}

void Session::describe(const Request& request) {
  const Result<std::shared_ptr<HostedSegment>> segment = server_.table().find(request.name);
  if (!segment.ok()) return refuse(request.id, segment.status());
  reply_with({.id = request.id}, encode_infos({listed_info(*segment.value())}));
}

SegmentInfo Session::listed_info(const HostedSegment& segment) const {
  SegmentInfo info = server_.describe(segment);
  if (info.spec.description.size() > kMaxListedDescription) info.spec.description.clear();
  return info;
}

bool Session::has_attached(std::uint64_t key) const {
  const core::Lock lock(mutex_);
  return attachments_.contains(key);
}

void Session::leave() {
  if (ahead_.has_value()) give_up(*std::exchange(ahead_, std::nullopt));
  std::map<std::uint64_t, ServedWait> waits;
  std::map<std::uint64_t, ClientAttachment> attachments;
  {
    const core::Lock lock(mutex_);
    left_ = true;
    waits.swap(waits_);
    attachments.swap(attachments_);
  }
  for (const auto& [request, wait] : waits) stop(wait);
  leases_.clear();
  for (const auto& [key, attachment] : attachments) {
    attachment.segment->stop_waiting(attachment.news);
    for (std::uint32_t i = 0; i < attachment.times; ++i) {
      server_.table().detach(attachment.segment);
    }
  }
  // The channel has ended, or is given up: nothing is to be settled with this client.
  static_cast<void>(channel_.close(std::chrono::nanoseconds(0)));
}

Status Session::send(const Reply& reply) {
  // An answer that cannot be sent is to a client that has left: the next wait ends the session.
  const std::vector<std::byte> message = reply.encode();
  return channel_.tell({message.data(), message.size()});
}

void Session::refuse(std::uint64_t request, Status status) {
  server_.count_refusal();
  reply({.id = request, .status = std::move(status)});
}

bool Session::lend_region(const Reply& reply, const MemoryRegion& region) {
  const std::vector<std::byte> message = reply.encode();
  return lent(reply.id, channel_.lend({message.data(), message.size()},
                                      {region.data(), region.size()}, [region] {}));
}

bool Session::lent(std::uint64_t request, const Completion& sent) {
  if (!sent.done() || sent.wait().ok()) return true;
  refuse(request, sent.wait());
  return false;
}

bool Session::reply_with(Reply reply, std::vector<std::byte> body) {
  if (body.size() <= inline_bytes(channel_.max_message_bytes())) {
    reply.body = std::move(body);
    this->reply(reply);
    return true;
  }
  std::optional<Workspace::ScratchMemory> piece = server_.workspace().try_take(body.size());
  if (!piece.has_value()) {
    refuse(reply.id, memory_used_up(server_.device(), "answer",
                                    "an answer of " + std::to_string(body.size()) + " bytes"));
    return false;
  }
  std::memcpy(piece->bytes().data, body.data(), body.size());
  const auto held = std::make_shared<Workspace::ScratchMemory>(*std::move(piece));
  const std::vector<std::byte> message = reply.encode();
  const ByteView memory = held->bytes();
  return lent(reply.id, channel_.lend({message.data(), message.size()}, memory, [held] {}));
}

}  // namespace farwrite::box
