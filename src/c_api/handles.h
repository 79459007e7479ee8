// What the C ABI's handles hold.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "box/box.h"
#include "core/fork_guard.h"
#include "device/channel.h"
#include "device/device.h"
#include "device/registration.h"
#include "farwrite/c_api.h"
#include "farwrite/memory_kind.h"
#include "farwrite/status.h"
#include "stream/stream.h"
#include "transfer/engine.h"
#include "transfer/tensor.h"

namespace farwrite::c_api {

// What holds for a channel, whichever handle of it a program uses.
class SharedByHandles {
 public:
  explicit SharedByHandles(std::uint64_t epoch = 0) : device_epoch(epoch) {}

  // Null without an engine. Lock-free: every message of the channel passes here.
  std::shared_ptr<transfer::Engine> engine() const {
    transfer::Engine* const serving = serving_.load(std::memory_order_acquire);
    return serving == nullptr ? nullptr : serving->shared_from_this();
  }
  // For one thread at a time: the one that has claimed the channel's notifications.
  void serve(std::shared_ptr<transfer::Engine> engine, std::shared_ptr<transfer::EngineUser> user) {
    engines_.emplace_back(std::move(engine), std::move(user));
    serving_.store(engines_.back().first.get(), std::memory_order_release);
  }
  void stop_serving() { serving_.store(nullptr); }

  const core::ForkGuard fork_guard;
  const std::uint64_t device_epoch;  // of the device that made it; 0 if that is not known

 private:
  std::atomic<transfer::Engine*> serving_{nullptr};
  // Also one that did not come to serve: another thread may have seen it, and be about to use it.
  std::vector<std::pair<std::shared_ptr<transfer::Engine>, std::shared_ptr<transfer::EngineUser>>>
      engines_;
};

}  // namespace farwrite::c_api

struct fw_status {
  farwrite::Status status;
};

struct fw_device {
  farwrite::Device device;
};

struct fw_channel {
  farwrite::Channel channel;
  // Of all handles of the channel, however early they were made.
  std::shared_ptr<farwrite::c_api::SharedByHandles> shared =
      std::make_shared<farwrite::c_api::SharedByHandles>();

  // Null without an engine.
  std::shared_ptr<farwrite::transfer::Engine> engine() const { return shared->engine(); }
  // Null in a forked child as well, where the engine's locks may be held for ever.
  std::shared_ptr<farwrite::transfer::Engine> usable_engine() const {
    return shared->fork_guard.in_forked_child() ? nullptr : engine();
  }
};

struct fw_completion {
  farwrite::Completion completion;
  std::shared_ptr<const std::uint64_t> version = nullptr;  // of a change, once that is done
};

struct fw_lease {
  std::shared_ptr<const void> owner = nullptr;
};

struct fw_region {
  farwrite::MemoryRegion region;
};

struct fw_remote {
  farwrite::Channel channel;
  farwrite::RemoteRegion region;
};

struct fw_registration {
  farwrite::MemoryRegistration registration;
};

struct fw_landed {
  farwrite::transfer::LandedTensor tensor;
};

struct fw_receiver {
  farwrite::TensorReceiver receiver;
};

struct fw_sender {
  farwrite::TensorSender sender;
};

struct fw_tensor {
  farwrite::ReceivedTensor tensor;
};

struct fw_streams {
  farwrite::stream::Streams streams;
  bool polled = false;
};

struct fw_stream {
  farwrite::stream::Stream stream;
};

struct fw_box_server {
  farwrite::box::Server server;
};

struct fw_box_client {
  farwrite::box::Client client;
};

struct fw_segment {
  farwrite::box::Segment segment;
  fw_segment_spec spec;  // with the texts of the segment's info
};

namespace farwrite::c_api {

// NULL for success.
inline fw_status* to_c(Status status) {
  return status.ok() ? nullptr : new fw_status{std::move(status)};
}

// Hands what was made out as a handle.
template <typename Value, typename Handle>
fw_status* hand_out(Result<Value> made, Handle** handle) {
  if (!made.ok()) return to_c(made.status());
  *handle = new Handle{*std::move(made)};
  return nullptr;
}

// A time longer than the clock can tell is for ever.
inline std::chrono::nanoseconds to_duration(std::uint64_t ns) {
  const auto most = static_cast<std::uint64_t>(kForever.count());
  return std::chrono::nanoseconds(static_cast<std::int64_t>(std::min(ns, most)));
}

// The numbers of options, of which a 0 is the default unless all are `exact`.
class Numbers {
 public:
  explicit Numbers(std::uint32_t exact) : exact_(exact != 0) {}
  bool exact() const { return exact_; }

  template <typename Number>
  void take(std::uint64_t given, Number& option) const {
    if (given != 0 || exact_) option = static_cast<Number>(given);
  }
  void take(std::uint64_t given, std::chrono::nanoseconds& option) const {
    if (given != 0 || exact_) option = to_duration(given);
  }

 private:
  const bool exact_;
};

// Where memory lies; null is the host.
inline Result<MemoryKind> to_kind(const char* kind) {
  return MemoryKind::parse(kind == nullptr ? "host" : kind);
}

// What a call needs, by its name in the header.
struct Needed {
  const char* name;
  bool given;
};
// Bytes, of which there may be none.
inline Needed bytes_at(const char* name, const void* bytes, std::uint64_t size) {
  return {name, bytes != nullptr || size == 0};
}

// The refusal of a call for which something is NULL, or NULL.
inline fw_status* refuse_null(std::string_view operation, std::initializer_list<Needed> arguments) {
  for (const Needed& needed : arguments) {
    if (needed.given) continue;
    return to_c(Status::error(StatusCode::kInvalidArgument, {operation},
                              std::string(needed.name) + " is NULL",
                              "pass what the header of that function describes"));
  }
  return nullptr;
}

// The refusal of bytes that reach behind the end of memory, or NULL. A size of -1 is a frequent
// one.
inline fw_status* refuse_wrapping(std::string_view operation, const void* bytes,
                                  std::uint64_t size) {
  if (size <= UINTPTR_MAX - reinterpret_cast<std::uintptr_t>(bytes)) return nullptr;
  return to_c(Status::error(StatusCode::kInvalidArgument, {operation},
                            std::to_string(size) + " bytes reach behind the end of memory",
                            "pass the size of the memory"));
}

// The refusal of a channel whose notifications the engine of c_slots.h takes, or NULL.
inline fw_status* refuse_engine(const fw_channel* channel, std::string_view operation) {
  if (channel->engine() == nullptr) return nullptr;
  return to_c(Status::error(StatusCode::kInvalidArgument, {operation}, "the channel has an engine",
                            "use another channel"));
}

// Zero-terminated; cut if it does not fit.
inline void copy_name(std::string_view text, char (&name)[FW_NAME_BYTES]) {
  const std::size_t count = text.copy(name, FW_NAME_BYTES - 1);
  name[count] = '\0';
}

// The part of `known` that the caller's struct has room for.
template <typename Struct>
void fill(Struct& given, Struct known) {
  known.struct_size = given.struct_size;
  std::memcpy(&given, &known, std::min(given.struct_size, sizeof(known)));
}

// The outcome of a call that posts an operation. Settled, not just done: a peer that goes ends the
// waiting while bytes may still be on their way.
inline fw_status* to_c(const Completion& posted, fw_completion** completion) {
  if (const Status* const ended = posted.ended(); ended != nullptr && ended->ok()) [[likely]] {
    *completion = nullptr;
    return nullptr;
  }
  if (!posted.settled()) {
    *completion = new fw_completion{posted};
    return nullptr;
  }
  Status status = posted.wait();
  if (status.ok()) *completion = nullptr;
  return to_c(std::move(status));
}

// `done` for the end of an operation, valid as long as it runs.
inline std::function<void(const Status&)> to_callback(fw_done done, void* context) {
  return [=](const Status& status) {
    if (status.ok()) return done(context, nullptr);
    const fw_status failed{status};
    done(context, &failed);
  };
}

// The outcome of a call whose `completion` may be NULL: what is queued then goes on by itself.
inline fw_status* sent(const Completion& posted, fw_completion** completion) {
  if (completion != nullptr) return to_c(posted, completion);
  return posted.done() ? to_c(posted.wait()) : nullptr;
}

// The refusal of a channel of another device, or NULL.
inline fw_status* refuse_other_device(const fw_channel* channel, const fw_device* device,
                                      std::string_view operation) {
  const std::uint64_t epoch = channel->shared->device_epoch;
  if (epoch == 0 || epoch == device->device.epoch()) return nullptr;
  return to_c(Status::error(StatusCode::kInvalidArgument, {operation},
                            "the channel is not of this device", "pass the channel's own device"));
}

// The defaults, and what the caller has set; null: all defaults.
Result<DeviceOptions> to_options(const fw_device_options* given);

// The part of the caller's struct that it has, and zeros. `type` is its name in C.
template <typename Struct>
Result<Struct> taken(const char* type, const Struct& given) {
  constexpr std::size_t kMostLater = 4096;  // bytes of fields that later versions may add
  // Every struct is as long as so many of these, so no size ends inside a field.
  if (given.struct_size == 0 || given.struct_size % sizeof(given.struct_size) != 0 ||
      given.struct_size > sizeof(Struct) + kMostLater) {
    return Status::error(StatusCode::kInvalidArgument, {std::string("take a ") + type},
                         "its struct_size is " + std::to_string(given.struct_size),
                         std::string("set it to sizeof(") + type + ")");
  }
  const std::size_t later = given.struct_size - std::min(given.struct_size, sizeof(Struct));
  const char* const behind = reinterpret_cast<const char*>(&given) + sizeof(Struct);
  if (std::any_of(behind, behind + later, [](char c) { return c != 0; })) {
    return Status::error(StatusCode::kUnsupported, {std::string("take a ") + type},
                         "it sets fields that this version of Farwrite does not know",
                         "leave them 0, or install the version that the program was compiled with");
  }
  Struct known = {};
  std::memcpy(&known, &given, std::min(given.struct_size, sizeof(known)));
  return known;
}

// Copies the part of `text` that fits, with a terminating zero; returns the length of all of it.
inline uint64_t copy_text(std::string_view text, char* buffer, uint64_t capacity) {
  if (buffer != nullptr && capacity > 0) buffer[text.copy(buffer, capacity - 1)] = '\0';
  return text.size();
}

fw_remote* hand_out(RemoteRegion lent);

// What a C handler gets for a notification.
inline fw_notification to_c(Notification& notification) {
  fw_notification seen = {};
  seen.struct_size = sizeof(seen);
  seen.tag = notification.tag;
  seen.lane = notification.lane;
  seen.message = notification.message.data();
  seen.message_bytes = notification.message.size();
  if (notification.lent.valid()) seen.lent = hand_out(std::move(notification.lent));
  return seen;
}

// Keeps a context for as long as something may use it.
inline std::shared_ptr<void> keep(void* context, fw_release release) {
  return {context, [release](void* kept) {
            if (release != nullptr) release(kept);
          }};
}

// The texts are those of `peer`.
fw_peer_info to_c(const PeerInfo& peer);

inline fw_identity to_c(const DeviceUuid& uuid, std::uint64_t epoch, const Endpoint& endpoint) {
  fw_identity identity = {};
  static_assert(sizeof(identity.uuid) == std::tuple_size<DeviceUuid>::value);
  std::memcpy(identity.uuid, uuid.data(), uuid.size());
  identity.epoch = epoch;
  copy_name(endpoint.to_string(), identity.endpoint);
  return identity;
}

}  // namespace farwrite::c_api
