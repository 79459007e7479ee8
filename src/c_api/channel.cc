// The C ABI: channels, notifications and views.
#include <functional>
#include <string>

#include "c_api/handles.h"

namespace {

using farwrite::Completion;
using farwrite::Notification;
using farwrite::Status;
using farwrite::StatusCode;
using farwrite::c_api::bytes_at;
using farwrite::c_api::outcome_now;
using farwrite::c_api::refuse_null;
using farwrite::c_api::to_c;
using farwrite::c_api::to_duration;
using farwrite::transfer::kMessageTag;
using farwrite::transfer::kTagKindMask;

// With an engine the upper byte of a tag says what comes.
fw_status* refuse_tag(const fw_channel* channel, const char* operation, uint32_t tag) {
  if (channel->engine == nullptr || (tag & kTagKindMask) == 0) return nullptr;
  return to_c(Status::error(StatusCode::kInvalidArgument, {operation},
                            "tag " + std::to_string(tag) + " has more than 24 bits",
                            "use a smaller tag on a channel with an engine"));
}

}  // namespace

fw_notification farwrite::c_api::to_c(const farwrite::Channel& channel,
                                      Notification& notification) {
  fw_notification seen = {};
  seen.struct_size = sizeof(seen);
  seen.tag = notification.tag;
  seen.lane = notification.lane;
  seen.message = notification.message.data();
  seen.message_bytes = notification.message.size();
  if (notification.lent.valid()) seen.lent = new fw_view{channel, std::move(notification.lent)};
  return seen;
}

void fw_channel_peer(const fw_channel* channel, fw_identity* identity) {
  if (channel == nullptr || identity == nullptr) return;
  const farwrite::PeerInfo& peer = channel->channel.peer();
  farwrite::c_api::fill(*identity, farwrite::c_api::to_c(peer.uuid, peer.epoch, peer.endpoint));
}

const char* fw_channel_peer_name(const fw_channel* channel) {
  return channel == nullptr ? "" : channel->channel.peer_name().c_str();
}

const char* fw_channel_fabric(const fw_channel* channel) {
  if (channel == nullptr) return "";
  return farwrite::to_string(channel->channel.peer().fabric).data();  // a literal
}

const char* fw_channel_fabric_reason(const fw_channel* channel) {
  return channel == nullptr ? "" : channel->channel.peer().fabric_reason.c_str();
}

uint32_t fw_channel_lanes(const fw_channel* channel) {
  return channel == nullptr ? 0 : channel->channel.peer().lanes;
}

uint64_t fw_channel_max_message_bytes(const fw_channel* channel) {
  return channel == nullptr ? 0 : channel->channel.max_message_bytes();
}

fw_status* fw_channel_serve(fw_channel* channel, fw_handler on_notification, fw_end_handler on_end,
                            void* context) {
  if (fw_status* const refused = refuse_null(
          "serve a channel",
          {{"channel", channel != nullptr}, {"on_notification", on_notification != nullptr}})) {
    return refused;
  }
  if (channel->engine != nullptr) {
    return to_c(Status::error(StatusCode::kInvalidArgument, {"serve a channel"},
                              "the channel has an engine", "take its messages in on_message"));
  }
  // The handle outlives its handlers: fw_channel_close() ends them before it frees it. A copy of
  // the Channel here would keep itself from being closed.
  Status status = channel->channel.on_notification([=](Notification notification) {
    const fw_notification seen = to_c(channel->channel, notification);
    on_notification(context, &seen);
  });
  if (status.ok() && on_end != nullptr) {
    status = channel->channel.on_end([=](bool good_order, const Status& reason) {
      on_end(context, good_order ? 1 : 0, reason.message().c_str());
    });
  }
  return to_c(std::move(status));
}

fw_status* fw_channel_send(fw_channel* channel, const void* message, uint64_t bytes, uint32_t tag,
                           uint32_t lane) {
  constexpr const char* kOperation = "send";
  if (fw_status* const refused = refuse_null(
          kOperation, {{"channel", channel != nullptr}, bytes_at("message", message, bytes)})) {
    return refused;
  }
  if (fw_status* const refused = refuse_tag(channel, kOperation, tag)) return refused;
  if (auto* const engine = channel->usable_engine()) {
    return outcome_now(engine->send({message, bytes}, kMessageTag | tag, lane));
  }
  return outcome_now(channel->channel.send({message, bytes}, tag, lane));
}

fw_status* fw_channel_lend(fw_channel* channel, const void* message, uint64_t bytes,
                           const void* memory, uint64_t memory_bytes, fw_returned returned,
                           void* context, uint32_t tag, uint32_t lane) {
  constexpr const char* kOperation = "lend";
  if (fw_status* const refused = refuse_null(kOperation, {{"channel", channel != nullptr},
                                                          bytes_at("message", message, bytes),
                                                          {"memory", memory != nullptr}})) {
    return refused;
  }
  if (fw_status* const refused = refuse_tag(channel, kOperation, tag)) return refused;
  std::function<void()> on_return = [] {};
  if (returned != nullptr) on_return = [=] { returned(context); };
  if (auto* const engine = channel->usable_engine()) {
    return outcome_now(engine->lend({message, bytes}, {memory, memory_bytes}, std::move(on_return),
                                    kMessageTag | tag, lane));
  }
  return outcome_now(channel->channel.lend({message, bytes}, {memory, memory_bytes},
                                           std::move(on_return), tag, lane));
}

fw_status* fw_channel_close(fw_channel* channel, uint64_t timeout_ns) {
  if (channel == nullptr) return nullptr;
  const Status status = channel->channel.close(to_duration(timeout_ns));
  // Called inside a callback, or one still runs: it uses the handle.
  const bool in_use = status.code() == StatusCode::kFailedPrecondition ||
                      status.code() == StatusCode::kDeadlineExceeded;
  if (!in_use) {
    if (auto* const engine = channel->usable_engine()) engine->close();
    delete channel;
  }
  return to_c(status);
}

uint64_t fw_view_bytes(const fw_view* view) { return view == nullptr ? 0 : view->region.size(); }

int fw_view_ready(const fw_view* view) { return view != nullptr && view->region.reached() ? 1 : 0; }

fw_status* fw_view_map(fw_view* view, uint64_t timeout_ns, const void** data, uint64_t* bytes) {
  if (fw_status* const refused = refuse_null(
          "map a view",
          {{"view", view != nullptr}, {"data", data != nullptr}, {"bytes", bytes != nullptr}})) {
    return refused;
  }
  auto alias = view->channel.alias(view->region, 0, view->region.size(), to_duration(timeout_ns));
  if (!alias.ok()) return to_c(alias.status());
  *data = alias->data();
  *bytes = alias->size();
  return nullptr;
}

int fw_view_maps(const fw_view* view) {
  return view != nullptr && view->channel.maps_peer_memory() ? 1 : 0;
}

void fw_view_read(fw_view* view, void* destination, uint32_t lane, fw_read_done done,
                  void* context) {
  if (done == nullptr) return;
  if (fw_status* const refused = refuse_null(
          "read a view", {{"view", view != nullptr}, {"destination", destination != nullptr}})) {
    done(context, fw_status_message(refused));
    return fw_status_free(refused);
  }
  const Completion read =
      view->channel.read({destination, view->region.size()}, view->region, 0, lane);
  read.on_settled([=](const Status& status) {
    done(context, status.ok() ? nullptr : status.message().c_str());
  });
}

void fw_view_release(fw_view* view) { delete view; }
