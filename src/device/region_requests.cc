#include "device/region_requests.h"

#include "core/long_wait.h"

namespace farwrite::device {
namespace {

// The last part of a lookup's time, in which the peer's refusal may arrive.
constexpr std::chrono::nanoseconds kForRefusal = std::chrono::milliseconds(200);
// What a peer has to answer, however short the time is: a lookup without time is a look.
constexpr std::chrono::nanoseconds kLeastTime = std::chrono::milliseconds(20);
constexpr std::string_view kLookUp = "look a name up";
constexpr std::string_view kOpen = "open memory";

}  // namespace

Result<ReplyMessage> RegionRequests::lookup(std::string_view name, core::Deadline deadline) {
  // The peer lets the lookup wait for the name, and then refuses it with the names that there are.
  // That has to come in time.
  const std::chrono::nanoseconds left = deadline.remaining();
  const auto refused_after = deadline.is_never() ? left : left - std::min(kForRefusal, left / 2);
  auto reply = look_up_once(name, refused_after, deadline.later(core::Deadline::after(kLeastTime)));
  const bool missing = reply.ok() && reply->status.code() == StatusCode::kNotFound;
  if (!missing || deadline.expired()) return reply;
  // The name may be published in the time that is left.
  auto last = look_up_once(name, deadline.remaining(), deadline);
  return last.ok() || life_.peer_over() || life_.closing() ? last : reply;
}

Result<ReplyMessage> RegionRequests::look_up_once(std::string_view name,
                                                  std::chrono::nanoseconds wait,
                                                  core::Deadline deadline) {
  LookupMessage message;
  message.request = requests_.next();
  message.name = std::string(name);
  message.wait_ms = static_cast<std::uint64_t>(wait / std::chrono::milliseconds(1));
  return ask(ControlFrameType::kLookup, message.request, message.to_bytes(), deadline, kLookUp,
             Status::error(StatusCode::kNotFound, {kLookUp, peer_name_},
                           "the peer has not published \"" + message.name + "\"",
                           "check the name, or let the peer publish it"));
}

Result<ReplyMessage> RegionRequests::open(const RegionDescriptor& descriptor,
                                          core::Deadline deadline) {
  const OpenMessage message{requests_.next(), descriptor};
  return ask(ControlFrameType::kOpen, message.request, message.to_bytes(), deadline, kOpen,
             late(kOpen));
}

Result<ReplyMessage> RegionRequests::ask(ControlFrameType type, std::uint64_t request,
                                         const std::vector<std::byte>& body,
                                         core::Deadline deadline, std::string_view operation,
                                         const Status& unanswered) {
  auto reply = requests_.ask(
      request, deadline, [&] { send_(type, body); },
      [&] { return life_.unusable(operation, peer_name_); },
      [&] {
        const Status silence = late(operation);
        const bool silent = silence.code() == StatusCode::kPeerSilent;
        core::tell_long_wait("still waiting, for ", deadline,
                             (silent ? silence : unanswered).message());
      });
  if (!reply.ok()) return reply.status();
  if (reply->has_value()) return **std::move(reply);
  return late(operation);
}

Status RegionRequests::late(std::string_view operation) const {
  const bool silent = life_.peer_state() == PeerState::kSilent;
  return Status::error(silent ? StatusCode::kPeerSilent : StatusCode::kDeadlineExceeded,
                       {operation, peer_name_},
                       silent ? "the peer is silent" : "the peer did not answer in time",
                       "check that the peer is running and not stopped, or allow more time");
}

void RegionRequests::take(ReplyMessage& reply) {
  const bool leases = reply.status.ok() && reply.lease != 0;
  if (requests_.answer(reply, [&] { return !leases || leases_.hold(); })) return;
  // Nothing waits any more; the lease must not stay out.
  if (reply.lease != 0) send_(ControlFrameType::kRelease, ReleaseMessage{reply.lease}.to_bytes());
}

}  // namespace farwrite::device
