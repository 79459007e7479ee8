// The C ABI: channels, notifications and names.
#include <functional>
#include <optional>
#include <string>

#include "c_api/handles.h"
#include "c_api/lend_end.h"

namespace {

using farwrite::Notification;
using farwrite::PeerState;
using farwrite::Status;
using farwrite::StatusCode;
using farwrite::c_api::bytes_at;
using farwrite::c_api::hand_out;
using farwrite::c_api::refuse_engine;
using farwrite::c_api::refuse_null;
using farwrite::c_api::sent;
using farwrite::c_api::to_c;
using farwrite::c_api::to_duration;
using farwrite::transfer::kMessageTag;
using farwrite::transfer::kTagKindMask;

// With an engine the upper byte of a tag says what comes.
fw_status* refuse_tag(const fw_channel* channel, const char* operation, uint32_t tag) {
  if ((tag & kTagKindMask) == 0 || channel->engine() == nullptr) return nullptr;
  return to_c(Status::error(StatusCode::kInvalidArgument, {operation},
                            "tag " + std::to_string(tag) + " has more than 24 bits",
                            "use a smaller tag on a channel with an engine"));
}

constexpr const char* kServe = "serve a channel";

// The handle of the channel may go with it.
void hand_over(Notification& notification, fw_handler on_notification, void* context) {
  const fw_notification seen = to_c(notification);
  on_notification(context, &seen);
}

// Null for null.
std::function<void(Notification)> to_handler(fw_handler on_notification,
                                             const std::shared_ptr<void>& context) {
  if (on_notification == nullptr) return nullptr;
  return [on_notification, context](Notification notification) {
    const fw_notification seen = to_c(notification);
    on_notification(context.get(), &seen);
  };
}

std::function<void(bool, const Status&)> to_end_handler(fw_end_handler on_end,
                                                        const std::shared_ptr<void>& context) {
  return [on_end, context](bool good_order, const Status& reason) {
    const fw_status ended{reason};
    on_end(context.get(), good_order ? 1 : 0, &ended);
  };
}

}  // namespace

fw_remote* farwrite::c_api::hand_out(RemoteRegion lent) {
  farwrite::Channel channel = channel_of(lent);
  return new fw_remote{std::move(channel), std::move(lent)};
}

fw_peer_info farwrite::c_api::to_c(const PeerInfo& peer) {
  fw_peer_info info = {};
  info.identity = to_c(peer.uuid, peer.epoch, peer.endpoint);
  info.identity.struct_size = sizeof(info.identity);
  info.name = peer.name.c_str();
  info.service = peer.service.c_str();
  info.fabric = to_string(peer.fabric).data();  // a literal
  info.fabric_reason = peer.fabric_reason.c_str();
  info.lanes = peer.lanes;
  info.encrypted = peer.encrypted ? 1 : 0;
  return info;
}

void fw_channel_peer_info(const fw_channel* channel, fw_peer_info* info) {
  if (channel == nullptr || info == nullptr) return;
  farwrite::c_api::fill(*info, to_c(channel->channel.peer()));
}

void fw_channel_stats(const fw_channel* channel, fw_channel_counts* stats) {
  if (channel == nullptr || stats == nullptr) return;
  const farwrite::ChannelStats now = channel->channel.stats();
  fw_channel_counts known = {};
  static_assert(sizeof(known) == sizeof(known.struct_size) + sizeof(now));
  known.writes = now.writes;
  known.reads = now.reads;
  known.aliases = now.aliases;
  known.bytes_written = now.bytes_written;
  known.bytes_read = now.bytes_read;
  known.bytes_aliased = now.bytes_aliased;
  known.copies = now.copies;
  known.notifications_sent = now.notifications_sent;
  known.notifications_received = now.notifications_received;
  known.messages_sent = now.messages_sent;
  known.messages_received = now.messages_received;
  known.backlogged = now.backlogged;
  known.doorbells = now.doorbells;
  known.leases_granted = now.leases_granted;
  known.leases_released = now.leases_released;
  known.leases_held = now.leases_held;
  known.quarantined_bytes = now.quarantined_bytes;
  known.silences = now.silences;
  farwrite::c_api::fill(*stats, known);
}

const char* fw_channel_peer_name(const fw_channel* channel) {
  return channel == nullptr ? "" : channel->channel.peer_name().c_str();
}

static_assert(FW_PEER_ALIVE == static_cast<int>(PeerState::kAlive) &&
              FW_PEER_SILENT == static_cast<int>(PeerState::kSilent) &&
              FW_PEER_CLOSED == static_cast<int>(PeerState::kClosed) &&
              FW_PEER_DEAD == static_cast<int>(PeerState::kDead));

uint32_t fw_channel_state(const fw_channel* channel) {
  if (channel == nullptr) return FW_PEER_CLOSED;
  return static_cast<uint32_t>(channel->channel.peer_state());
}

int fw_channel_maps(const fw_channel* channel) {
  return channel != nullptr && channel->channel.maps_peer_memory() ? 1 : 0;
}

uint64_t fw_channel_max_message_bytes(const fw_channel* channel) {
  return channel == nullptr ? 0 : channel->channel.max_message_bytes();
}

fw_status* fw_channel_serve(fw_channel* channel, fw_handler on_notification, fw_end_handler on_end,
                            void* context) {
  if (fw_status* const refused = refuse_null(
          kServe,
          {{"channel", channel != nullptr}, {"on_notification", on_notification != nullptr}})) {
    return refused;
  }
  if (fw_status* const refused = refuse_engine(channel, kServe)) return refused;
  farwrite::Channel served = channel->channel;  // the handle may go with the callback
  const std::shared_ptr<void> kept = farwrite::c_api::keep(context, nullptr);
  Status status = served.on_notification(to_handler(on_notification, kept));
  if (!status.ok() || on_end == nullptr) return to_c(std::move(status));
  status = served.on_end(to_end_handler(on_end, kept));
  if (!status.ok()) (void)served.on_notification(nullptr);  // as it was before
  return to_c(std::move(status));
}

fw_status* fw_channel_on_notification(fw_channel* channel, fw_handler on_notification,
                                      void* context, fw_release release, uint64_t timeout_ns) {
  const std::shared_ptr<void> kept = farwrite::c_api::keep(context, release);
  if (fw_status* const refused = refuse_null(kServe, {{"channel", channel != nullptr}})) {
    return refused;
  }
  if (fw_status* const refused = refuse_engine(channel, kServe)) return refused;
  farwrite::Channel served = channel->channel;  // as above
  return to_c(served.on_notification(to_handler(on_notification, kept), to_duration(timeout_ns)));
}

fw_status* fw_channel_on_end(fw_channel* channel, fw_end_handler on_end, void* context,
                             fw_release release) {
  const std::shared_ptr<void> kept = farwrite::c_api::keep(context, release);
  if (fw_status* const refused =
          refuse_null(kServe, {{"channel", channel != nullptr}, {"on_end", on_end != nullptr}})) {
    return refused;
  }
  if (fw_status* const refused = refuse_engine(channel, kServe)) return refused;
  farwrite::Channel served = channel->channel;  // as above
  return to_c(served.on_end(to_end_handler(on_end, kept)));
}

fw_status* fw_channel_take(fw_channel* channel, uint64_t timeout_ns, fw_handler on_notification,
                           void* context, int* taken) {
  if (channel == nullptr || on_notification == nullptr || taken == nullptr) [[unlikely]] {
    return refuse_null("take a notification", {{"channel", channel != nullptr},
                                               {"on_notification", on_notification != nullptr},
                                               {"taken", taken != nullptr}});
  }
  if (timeout_ns == 0) {
    auto tried = channel->channel.try_notification();
    if (!tried.ok()) return to_c(tried.status());
    *taken = tried->has_value() ? 1 : 0;
    if (tried->has_value()) hand_over(**tried, on_notification, context);
    return nullptr;
  }
  auto waited = channel->channel.wait_notification(to_duration(timeout_ns));
  if (waited.ok()) [[likely]] {
    *taken = 1;
    hand_over(*waited, on_notification, context);
    return nullptr;
  }
  if (waited.status().code() != StatusCode::kDeadlineExceeded) return to_c(waited.status());
  *taken = 0;
  return nullptr;
}

fw_status* fw_channel_descriptor(fw_channel* channel, int* descriptor) {
  if (fw_status* const refused =
          refuse_null("make a descriptor",
                      {{"channel", channel != nullptr}, {"descriptor", descriptor != nullptr}})) {
    return refused;
  }
  const auto made = channel->channel.notification_descriptor();
  if (!made.ok()) return to_c(made.status());
  *descriptor = made.value();
  return nullptr;
}

fw_status* fw_channel_arm(fw_channel* channel, int* armed) {
  if (fw_status* const refused = refuse_null(
          "arm a descriptor", {{"channel", channel != nullptr}, {"armed", armed != nullptr}})) {
    return refused;
  }
  const auto ready = channel->channel.arm_notifications();
  if (!ready.ok()) return to_c(ready.status());
  *armed = ready.value() ? 1 : 0;
  return nullptr;
}

void fw_channel_disarm(fw_channel* channel) {
  if (channel != nullptr) channel->channel.disarm_notifications();
}

fw_status* fw_channel_notify(fw_channel* channel, uint32_t tag, uint32_t lane,
                             fw_completion** completion) {
  constexpr const char* kOperation = "notify";
  if (channel == nullptr) [[unlikely]] {
    return refuse_null(kOperation, {{"channel", channel != nullptr}});
  }
  if (channel->engine() != nullptr) {
    return to_c(Status::error(StatusCode::kInvalidArgument, {kOperation},
                              "the channel has an engine", "send a message"));
  }
  return sent(channel->channel.notify(tag, lane), completion);
}

fw_status* fw_channel_send(fw_channel* channel, const void* message, uint64_t bytes, uint32_t tag,
                           uint32_t lane, fw_completion** completion) {
  constexpr const char* kOperation = "send";
  if (channel == nullptr || (message == nullptr && bytes != 0)) [[unlikely]] {
    return refuse_null(kOperation,
                       {{"channel", channel != nullptr}, bytes_at("message", message, bytes)});
  }
  if (fw_status* const refused = refuse_tag(channel, kOperation, tag)) return refused;
  if (const auto engine = channel->usable_engine()) {
    return sent(engine->send({message, bytes}, kMessageTag | tag, lane), completion);
  }
  return sent(channel->channel.send({message, bytes}, tag, lane), completion);
}

fw_status* fw_channel_lend(fw_channel* channel, const void* message, uint64_t bytes,
                           const void* memory, uint64_t memory_bytes, fw_returned returned,
                           void* context, uint32_t tag, uint32_t lane, fw_completion** completion) {
  constexpr const char* kOperation = "lend";
  if (fw_status* const refused = refuse_null(kOperation, {{"channel", channel != nullptr},
                                                          bytes_at("message", message, bytes),
                                                          {"memory", memory != nullptr}})) {
    return refused;
  }
  if (fw_status* const refused = refuse_tag(channel, kOperation, tag)) return refused;
  const auto lent = std::make_shared<farwrite::c_api::LendEnd>(returned, context);
  const auto on_return = [lent] { lent->end(); };
  const auto engine = channel->usable_engine();
  const farwrite::Completion posted =
      engine != nullptr
          ? engine->lend({message, bytes}, {memory, memory_bytes}, on_return, kMessageTag | tag,
                         lane)
          : channel->channel.lend({message, bytes}, {memory, memory_bytes}, on_return, tag, lane);
  // Until it has settled, the message may be on its way, and the lease with it. If it has failed
  // and the program was told of the lease's end, this call did lend.
  const bool failed = posted.settled() && !posted.wait().ok() && lent->withdraw();
  if (failed) return to_c(posted.wait());
  if (completion != nullptr) {
    const bool ended_well = posted.settled() && posted.wait().ok();
    *completion = ended_well ? nullptr : new fw_completion{posted};
  }
  return nullptr;
}

fw_status* fw_channel_allocate(fw_channel* channel, uint64_t bytes, const char* kind,
                               fw_region** region) {
  if (fw_status* const refused = refuse_null(
          "allocate", {{"channel", channel != nullptr}, {"region", region != nullptr}})) {
    return refused;
  }
  const auto where = farwrite::c_api::to_kind(kind);
  if (!where.ok()) return to_c(where.status());
  return hand_out(channel->channel.allocate(bytes, where.value()), region);
}

fw_status* fw_channel_publish(fw_channel* channel, const char* name, const fw_region* region,
                              const char* description) {
  if (fw_status* const refused = refuse_null("publish", {{"channel", channel != nullptr},
                                                         {"name", name != nullptr},
                                                         {"region", region != nullptr}})) {
    return refused;
  }
  return to_c(
      channel->channel.publish(name, region->region, description == nullptr ? "" : description));
}

fw_status* fw_channel_lookup(fw_channel* channel, const char* name, uint64_t timeout_ns,
                             fw_remote** remote) {
  if (fw_status* const refused = refuse_null("look up a region", {{"channel", channel != nullptr},
                                                                  {"name", name != nullptr},
                                                                  {"remote", remote != nullptr}})) {
    return refused;
  }
  farwrite::Channel kept = channel->channel;
  auto found = kept.lookup(name, to_duration(timeout_ns));
  if (!found.ok()) return to_c(found.status());
  *remote = new fw_remote{std::move(kept), *std::move(found)};
  return nullptr;
}

fw_status* fw_channel_open(fw_channel* channel, const void* descriptor, uint64_t bytes,
                           uint64_t timeout_ns, fw_remote** remote) {
  if (fw_status* const refused =
          refuse_null("open a region", {{"channel", channel != nullptr},
                                        {"descriptor", descriptor != nullptr},
                                        {"remote", remote != nullptr}})) {
    return refused;
  }
  auto parsed = farwrite::RegionDescriptor::from_bytes({descriptor, bytes});
  if (!parsed.ok()) return to_c(parsed.status());
  farwrite::Channel kept = channel->channel;
  auto opened = kept.open(*parsed, to_duration(timeout_ns));
  if (!opened.ok()) return to_c(opened.status());
  *remote = new fw_remote{std::move(kept), *std::move(opened)};
  return nullptr;
}

fw_status* fw_channel_flush(fw_channel* channel, fw_completion** completion) {
  if (fw_status* const refused = refuse_null(
          "flush", {{"channel", channel != nullptr}, {"completion", completion != nullptr}})) {
    return refused;
  }
  return to_c(channel->channel.flush(), completion);
}

fw_status* fw_channel_close(fw_channel* channel, uint64_t timeout_ns) {
  if (channel == nullptr) return nullptr;
  farwrite::Channel closed = channel->channel;  // the handle may go with a callback
  const std::shared_ptr<farwrite::transfer::Engine> engine = channel->engine();
  const bool forked = channel->shared->fork_guard.in_forked_child();
  Status status = closed.close(to_duration(timeout_ns));
  // Called inside a callback, or one still runs: it uses the engine.
  const bool in_use = status.code() == StatusCode::kFailedPrecondition ||
                      status.code() == StatusCode::kDeadlineExceeded;
  if (!in_use && engine != nullptr && !forked) engine->close();
  return to_c(std::move(status));
}

fw_channel* fw_channel_share(const fw_channel* channel) {
  return channel == nullptr ? nullptr : new fw_channel(*channel);
}

int fw_channel_same(const fw_channel* channel, const fw_channel* other) {
  return channel != nullptr && other != nullptr && channel->channel == other->channel ? 1 : 0;
}

void fw_channel_release(fw_channel* channel) { delete channel; }
