// The C ABI: tensors that land in slots.
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "c_api/handles.h"

using farwrite::Channel;
using farwrite::Completion;
using farwrite::Notification;
using farwrite::Status;
using farwrite::StatusCode;
using farwrite::c_api::bytes_at;
using farwrite::c_api::refuse_null;
using farwrite::c_api::to_c;
using farwrite::transfer::CreditTable;
using farwrite::transfer::Engine;
using farwrite::transfer::EngineUser;
using farwrite::transfer::kMaxEdgeKeyBytes;
using farwrite::transfer::kMessageTag;
using farwrite::transfer::kTagKindMask;
using farwrite::transfer::LandedTensor;
using farwrite::transfer::LandingTotals;
using farwrite::transfer::malformed_record;
using farwrite::transfer::PushVerdict;

namespace {

// The lane of all records about slots.
constexpr std::uint32_t kRecordLane = 0;
constexpr std::chrono::nanoseconds kOpenTimeout = std::chrono::seconds(10);
// Grants go with what is sent anyway; alone, after this. A step that keeps its tensors for less has
// two slots an edge.
constexpr std::chrono::nanoseconds kGrantDelay = std::chrono::milliseconds(1);

bool is_edge(const char* edge, std::uint64_t bytes) {
  return bytes <= kMaxEdgeKeyBytes && (edge != nullptr || bytes == 0);
}

// Tensors keep their slots longer than everything else lives.
LandingTotals& totals() {
  static LandingTotals* const only = new LandingTotals;
  return *only;
}

// Delivers to the handlers of a C program, which may have released its handle.
class Handlers final : public EngineUser {
 public:
  Handlers(const fw_tensor_handlers& handlers, void* context)
      : handlers_(handlers), context_(context) {}

  // Before the channel delivers anything.
  void use(std::weak_ptr<Engine> engine) { engine_ = std::move(engine); }

  Status on_tensor(LandedTensor tensor) override {
    tensor.view();
    auto landed = std::make_unique<fw_landed>(fw_landed{std::move(tensor)});
    const LandedTensor& held = landed->tensor;
    fw_landing landing = {};
    landing.struct_size = sizeof(landing);
    landing.edge = held.edge().data();
    landing.edge_bytes = held.edge().size();
    // The description may go with the handle, which the handler may release.
    const std::vector<std::byte> description(held.description().data,
                                             held.description().data + held.description().size);
    landing.description = description.data();
    landing.description_bytes = description.size();
    landing.data = held.data();
    landing.bytes = held.bytes();
    landing.landed = landed.release();
    handlers_.on_landing(context_, &landing);
    return Status();
  }

  Status on_misfit(const std::string& edge, PushVerdict verdict) override {
    return malformed_record(verdict == PushVerdict::kUnasked
                                ? "a tensor landed in a slot of \"" + edge + "\" without a grant"
                                : "a tensor landed in \"" + edge + "\" with a malformed head");
  }
  Status on_unknown_slot(std::uint32_t slot) override {
    return malformed_record("a tensor landed in slot " + std::to_string(slot) +
                            ", which does not exist");
  }

  Status on_message(Notification notification) override {
    if ((notification.tag & kTagKindMask) != kMessageTag) {
      return malformed_record("a record of unknown type");
    }
    notification.tag &= ~kTagKindMask;
    const fw_notification seen = to_c(notification);
    handlers_.on_message(context_, &seen);
    return Status();
  }

  Status on_slots(const std::string& edge, std::size_t /*count*/) override {
    // Opening may wait for the peer: here, a peer that is stopped would hold up all others.
    run_later({}, [weak = engine_, edge] {
      if (const std::shared_ptr<Engine> engine = weak.lock()) {
        // A slot that cannot be opened was counted, and is given up.
        (void)engine->open_slots(edge, farwrite::core::Deadline::after(kOpenTimeout), kRecordLane,
                                 nullptr);
      }
    });
    return Status();
  }

  void on_slot(bool opened) override { handlers_.on_slot(opened ? 1 : 0); }

  void run_later(std::chrono::nanoseconds delay, std::function<void()> work) override {
    handlers_.run_later(static_cast<std::uint64_t>(delay.count()), &run,
                        new std::function<void()>(std::move(work)));
  }

 private:
  static void run(void* work) {
    const std::unique_ptr<std::function<void()>> owned(static_cast<std::function<void()>*>(work));
    (*owned)();
  }

  std::weak_ptr<Engine> engine_;
  const fw_tensor_handlers handlers_;
  void* const context_;
};

}  // namespace

fw_status* fw_channel_serve_tensors(fw_channel* channel, const fw_tensor_handlers* handlers,
                                    void* context) {
  constexpr const char* kOperation = "serve tensors of a channel";
  if (fw_status* const refused = refuse_null(
          kOperation, {{"channel", channel != nullptr}, {"handlers", handlers != nullptr}})) {
    return refused;
  }
  if (Status forked = channel->shared->fork_guard.check(kOperation); !forked.ok()) {
    return to_c(std::move(forked));
  }
  const auto all = farwrite::c_api::taken("fw_tensor_handlers", *handlers);
  if (!all.ok()) return to_c(all.status());
  handlers = &all.value();
  const bool complete = handlers->on_message != nullptr && handlers->on_end != nullptr &&
                        handlers->on_landing != nullptr && handlers->on_slot != nullptr &&
                        handlers->run_later != nullptr;
  if (!complete || channel->engine() != nullptr) {
    return to_c(
        Status::error(StatusCode::kInvalidArgument, {kOperation},
                      complete ? "the channel has an engine already" : "a handler is missing",
                      "pass all handlers, once"));
  }
  if (!channel->channel.claim_notifications()) {
    return to_c(Status::error(StatusCode::kAlreadyExists,
                              {kOperation, channel->channel.peer_name()},
                              "something else takes the channel's notifications",
                              "serve tensors on a channel without streams and open edges"));
  }
  const auto user = std::make_shared<Handlers>(*handlers, context);
  const auto engine = std::make_shared<Engine>(channel->channel, user, kGrantDelay, totals());
  user->use(engine);
  const fw_end_handler on_end = handlers->on_end;
  // Every handle of the channel sends by the engine from now on.
  const std::shared_ptr<farwrite::c_api::SharedByHandles> shared = channel->shared;
  shared->serve(engine, user);
  Channel served = channel->channel;
  Status status = served.on_notification([engine, user](Notification notification) {
    const Status taken = engine->take(std::move(notification));
    if (taken.code() == StatusCode::kProtocolError) engine->refuse_peer(taken);
  });
  if (!status.ok()) {  // as it was before
    shared->stop_serving();
    served.release_notifications();
    return to_c(std::move(status));
  }
  // From here on, a message that had come may have released the handle.
  status = served.on_end([engine, user, on_end, context](bool good_order, const Status& reason) {
    engine->close();
    const fw_status ended{reason};
    on_end(context, good_order ? 1 : 0, &ended);
  });
  if (!status.ok()) {
    (void)served.on_notification(nullptr);
    shared->stop_serving();
    served.release_notifications();
    engine->close();
  }
  return to_c(std::move(status));
}

fw_status* fw_channel_push(fw_channel* channel, const char* edge, uint64_t edge_bytes,
                           const void* description, uint64_t description_bytes, const void* source,
                           uint64_t bytes, uint32_t lane, fw_done done, void* context,
                           int* pushed) {
  constexpr const char* kOperation = "push a tensor";
  if (fw_status* const refused =
          refuse_null(kOperation, {{"channel", channel != nullptr},
                                   bytes_at("edge", edge, edge_bytes),
                                   bytes_at("description", description, description_bytes),
                                   bytes_at("source", source, bytes),
                                   {"done", done != nullptr},
                                   {"pushed", pushed != nullptr}})) {
    return refused;
  }
  if (edge_bytes > kMaxEdgeKeyBytes) {
    return to_c(Status::error(StatusCode::kInvalidArgument, {kOperation},
                              "the edge's key has " + std::to_string(edge_bytes) + " bytes",
                              "use at most " + std::to_string(kMaxEdgeKeyBytes)));
  }
  if (Status forked = channel->shared->fork_guard.check(kOperation); !forked.ok()) {
    return to_c(std::move(forked));
  }
  const std::shared_ptr<Engine> engine = channel->engine();
  if (engine == nullptr) {
    return to_c(Status::error(StatusCode::kFailedPrecondition, {kOperation},
                              "the channel has no engine", "call fw_channel_serve_tensors()"));
  }
  std::optional<CreditTable::Taken> taken;
  if (description_bytes <= farwrite::transfer::kMaxSlotDescriptionBytes) {
    taken = engine->take_credit({edge, edge_bytes}, bytes);
  }
  if (!taken.has_value()) {
    *pushed = 0;
    return nullptr;
  }
  const auto* const described = static_cast<const std::byte*>(description);
  const Completion written =
      engine->push(*taken, {described, described + description_bytes}, {source, bytes}, lane);
  // Settled, not just done: a peer that goes ends the waiting while bytes may still be on their
  // way.
  if (written.settled()) {
    const Status status = written.wait();
    if (!status.ok()) {
      engine->put_back(*taken, kRecordLane);
      return to_c(status);
    }
  }
  *pushed = 1;
  written.on_settled(farwrite::c_api::to_callback(done, context));
  return nullptr;
}

int fw_channel_has_slot(const fw_channel* channel, const char* edge, uint64_t edge_bytes,
                        uint64_t bytes) {
  if (channel == nullptr || !is_edge(edge, edge_bytes)) return 0;
  const std::shared_ptr<const Engine> engine = channel->usable_engine();
  return engine != nullptr && engine->has_credit({edge, edge_bytes}, bytes) ? 1 : 0;
}

void fw_channel_want_slots(fw_channel* channel, const char* edge, uint64_t edge_bytes,
                           uint64_t bytes) {
  if (channel == nullptr || !is_edge(edge, edge_bytes)) return;
  if (const std::shared_ptr<Engine> engine = channel->usable_engine()) {
    engine->want({edge, edge_bytes}, bytes, kRecordLane);
  }
}

void fw_landed_release(fw_landed* landed) { delete landed; }

void fw_slots(fw_slot_stats* stats) {
  if (stats == nullptr) return;
  fw_slot_stats now = {};
  now.slots = static_cast<std::uint64_t>(totals().slots.load());
  now.held = static_cast<std::uint64_t>(totals().held.load());
  now.bytes = static_cast<std::uint64_t>(totals().bytes.load());
  farwrite::c_api::fill(*stats, now);
}
