// The C ABI: tensors over named edges.
#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "c_api/handles.h"

using farwrite::ReceiverOptions;
using farwrite::Result;
using farwrite::Status;
using farwrite::StatusCode;
using farwrite::TensorMemory;
using farwrite::TensorReceiver;
using farwrite::TensorSender;
using farwrite::TensorSpec;
using farwrite::TensorStats;
using farwrite::c_api::bytes_at;
using farwrite::c_api::fill;
using farwrite::c_api::hand_out;
using farwrite::c_api::refuse_engine;
using farwrite::c_api::refuse_null;
using farwrite::c_api::to_c;
using farwrite::c_api::to_duration;

namespace {

static_assert(FW_MAX_RANK == farwrite::kMaxDimensions);

Result<TensorSpec> to_spec(const fw_tensor_spec& given) {
  if (given.rank > FW_MAX_RANK) {
    return Status::error(StatusCode::kInvalidArgument, {"describe a tensor"},
                         "it has " + std::to_string(given.rank) + " dimensions",
                         "use at most " + std::to_string(FW_MAX_RANK));
  }
  TensorSpec spec;
  if (given.dtype != nullptr) spec.dtype = given.dtype;
  spec.item_bytes = given.item_bytes;
  spec.dims.assign(given.dims, given.dims + given.rank);
  return spec;
}

// Valid as long as `spec`.
fw_tensor_spec spec_to_c(const TensorSpec& spec) {
  fw_tensor_spec shown = {};
  shown.dtype = spec.dtype.c_str();
  shown.item_bytes = spec.item_bytes;
  shown.rank = static_cast<std::uint32_t>(spec.dims.size());
  std::copy(spec.dims.begin(), spec.dims.end(), shown.dims);
  return shown;
}

// Memory of the program, for what is read.
std::function<Result<TensorMemory>(const TensorSpec&, std::uint64_t)> to_allocator(
    const fw_receiver_options& given) {
  return [allocate = given.allocate, deallocate = given.deallocate, context = given.context](
             const TensorSpec& spec, std::uint64_t bytes) -> Result<TensorMemory> {
    const fw_tensor_spec described = spec_to_c(spec);
    void* owner = nullptr;
    void* const memory = allocate(context, &described, bytes, &owner);
    if (memory == nullptr) {
      return Status::error(
          StatusCode::kResourceExhausted, {"receive a tensor"},
          "the program allocated no memory for " + std::to_string(bytes) + " bytes",
          "release tensors, and receive again");
    }
    return TensorMemory{
        static_cast<std::byte*>(memory),
        std::shared_ptr<void>(memory, [=](void* unused) { deallocate(context, unused, owner); })};
  };
}

Result<ReceiverOptions> to_receiver_options(const fw_receiver_options* given) {
  constexpr const char* kOperation = "open a tensor receiver";
  ReceiverOptions options;
  if (given == nullptr) return options;
  const auto sized = farwrite::c_api::taken("fw_receiver_options", *given);
  if (!sized.ok()) return sized.status();
  const fw_receiver_options& c = sized.value();
  if (c.kind > FW_EDGE_DYNAMIC) {
    return Status::error(StatusCode::kInvalidArgument, {kOperation},
                         std::to_string(c.kind) + " is no kind of edge", "use one of fw_edge_kind");
  }
  constexpr auto kLastLowering =
      static_cast<std::uint32_t>(farwrite::NotificationLowering::kTailFlag);
  if (c.lowering > kLastLowering) {
    return Status::error(StatusCode::kInvalidArgument, {kOperation},
                         std::to_string(c.lowering) + " is no lowering",
                         "use a number of farwrite::NotificationLowering, or 0");
  }
  if (c.allocate != nullptr && c.deallocate == nullptr) {
    return Status::error(StatusCode::kInvalidArgument, {kOperation},
                         "allocate is given and deallocate is NULL", "give both, or neither");
  }
  if (c.kind != FW_EDGE_UNSET) options.kind = static_cast<farwrite::EdgeKind>(c.kind);
  if (options.kind != farwrite::EdgeKind::kDynamic) {
    auto spec = to_spec(c.spec);
    if (!spec.ok()) return spec.status();
    options.spec = *std::move(spec);
  }
  options.max_bytes = c.max_bytes;
  farwrite::c_api::Numbers(c.exact).take(c.slots, options.slots);
  options.lane = c.lane;
  options.copy_offers = c.copy_offers != 0;
  if (c.lowering != 0) options.lowering = static_cast<farwrite::NotificationLowering>(c.lowering);
  if (c.allocate != nullptr) options.allocator = to_allocator(c);
  return options;
}

void fill_stats(fw_tensor_stats& given, const TensorStats& stats) {
  static_assert(sizeof(given) == sizeof(given.struct_size) + sizeof(stats));
  fw_tensor_stats known = {};
  known.pushed = stats.pushed;
  known.offered = stats.offered;
  known.offers_no_slot = stats.offers_no_slot;
  known.staged = stats.staged;
  known.aliased = stats.aliased;
  known.read = stats.read;
  known.eager = stats.eager;
  known.allocations = stats.allocations;
  known.registrations = stats.registrations;
  known.requests = stats.requests;
  known.dropped_stale = stats.dropped_stale;
  known.dropped_malformed = stats.dropped_malformed;
  known.dropped_offers = stats.dropped_offers;
  known.dropped_unseen = stats.dropped_unseen;
  known.grants = stats.grants;
  known.revoked = stats.revoked;
  known.slots_free = stats.slots_free;
  known.slots_granted = stats.slots_granted;
  known.slots_landed = stats.slots_landed;
  known.slots_viewed = stats.slots_viewed;
  fill(given, known);
}

}  // namespace

fw_status* fw_receiver_open(fw_channel* channel, const char* name,
                            const fw_receiver_options* options, fw_receiver** receiver) {
  constexpr const char* kOperation = "open a tensor receiver";
  if (fw_status* const refused = refuse_null(kOperation, {{"channel", channel != nullptr},
                                                          {"name", name != nullptr},
                                                          {"receiver", receiver != nullptr}})) {
    return refused;
  }
  if (fw_status* const refused = refuse_engine(channel, kOperation)) return refused;
  const auto chosen = to_receiver_options(options);
  if (!chosen.ok()) return to_c(chosen.status());
  return hand_out(TensorReceiver::open(channel->channel, name, chosen.value()), receiver);
}

fw_status* fw_receiver_receive(fw_receiver* receiver, uint64_t timeout_ns, fw_tensor** tensor) {
  if (receiver == nullptr || tensor == nullptr) [[unlikely]] {
    return refuse_null("receive a tensor",
                       {{"receiver", receiver != nullptr}, {"tensor", tensor != nullptr}});
  }
  TensorReceiver held = receiver->receiver;  // another thread may free the handle meanwhile
  auto received = held.receive(to_duration(timeout_ns));
  const bool late = received.status().code() == StatusCode::kDeadlineExceeded;
  if (!received.ok() && !late) return to_c(received.status());
  *tensor = late ? nullptr : new fw_tensor{*std::move(received)};
  return nullptr;
}

fw_status* fw_receiver_wait(fw_receiver* receiver, uint64_t timeout_ns) {
  if (fw_status* const refused =
          refuse_null("wait for a tensor", {{"receiver", receiver != nullptr}})) {
    return refused;
  }
  TensorReceiver held = receiver->receiver;  // as above
  return to_c(held.wait(to_duration(timeout_ns)));
}

fw_status* fw_receiver_reset(fw_receiver* receiver) {
  if (fw_status* const refused =
          refuse_null("reset a tensor receiver", {{"receiver", receiver != nullptr}})) {
    return refused;
  }
  return to_c(receiver->receiver.reset());
}

void fw_receiver_stats(const fw_receiver* receiver, fw_tensor_stats* stats) {
  if (receiver != nullptr && stats != nullptr) fill_stats(*stats, receiver->receiver.stats());
}

fw_status* fw_receiver_close(fw_receiver* receiver, uint64_t timeout_ns) {
  return receiver == nullptr ? nullptr : to_c(receiver->receiver.close(to_duration(timeout_ns)));
}

void fw_receiver_release(fw_receiver* receiver) {
  if (receiver == nullptr) return;
  // Not by the end of the handle alone: a thread that receives holds a copy.
  (void)receiver->receiver.close({});
  delete receiver;
}

void fw_tensor_get(const fw_tensor* tensor, fw_tensor_info* info) {
  if (tensor == nullptr || info == nullptr) return;
  const farwrite::ReceivedTensor& received = tensor->tensor;
  fw_tensor_info known = {};
  known.spec = spec_to_c(received.spec());
  known.data = received.data();
  known.bytes = received.size();
  known.sequence = received.sequence();
  known.arrival = static_cast<uint32_t>(received.arrival());
  fill(*info, known);
}

void fw_tensor_release(fw_tensor* tensor) { delete tensor; }

fw_status* fw_sender_open(fw_device* device, fw_channel* channel, const char* name,
                          uint64_t timeout_ns, fw_sender** sender) {
  constexpr const char* kOperation = "open a tensor sender";
  if (fw_status* const refused = refuse_null(kOperation, {{"device", device != nullptr},
                                                          {"channel", channel != nullptr},
                                                          {"name", name != nullptr},
                                                          {"sender", sender != nullptr}})) {
    return refused;
  }
  if (fw_status* const refused = refuse_engine(channel, kOperation)) return refused;
  if (fw_status* const refused =
          farwrite::c_api::refuse_other_device(channel, device, kOperation)) {
    return refused;
  }
  return hand_out(
      TensorSender::open(device->device, channel->channel, name, to_duration(timeout_ns)), sender);
}

uint32_t fw_sender_announced(const fw_sender* sender, fw_tensor_spec* spec) {
  if (sender == nullptr || spec == nullptr) return FW_EDGE_UNSET;
  *spec = spec_to_c(sender->sender.announced());
  return static_cast<uint32_t>(sender->sender.kind());
}

fw_status* fw_sender_send(fw_sender* sender, const fw_tensor_spec* spec, const void* data,
                          uint64_t bytes, uint64_t timeout_ns, fw_completion** completion) {
  if (sender == nullptr || spec == nullptr || completion == nullptr ||
      (data == nullptr && bytes != 0)) [[unlikely]] {
    return refuse_null("send a tensor", {{"sender", sender != nullptr},
                                         {"spec", spec != nullptr},
                                         bytes_at("data", data, bytes),
                                         {"completion", completion != nullptr}});
  }
  const auto described = to_spec(*spec);
  if (!described.ok()) return to_c(described.status());
  TensorSender held = sender->sender;  // another thread may free the handle meanwhile
  return to_c(held.send(described.value(), {data, bytes}, to_duration(timeout_ns)), completion);
}

void fw_sender_stats(const fw_sender* sender, fw_tensor_stats* stats) {
  if (sender != nullptr && stats != nullptr) fill_stats(*stats, sender->sender.stats());
}

fw_status* fw_sender_close(fw_sender* sender, uint64_t timeout_ns) {
  return sender == nullptr ? nullptr : to_c(sender->sender.close(to_duration(timeout_ns)));
}

fw_status* fw_sender_abandon(fw_sender* sender) {
  return sender == nullptr ? nullptr : to_c(sender->sender.abandon());
}

void fw_sender_release(fw_sender* sender) {
  if (sender == nullptr) return;
  // Not by the end of the handle alone: a thread that sends holds a copy.
  (void)sender->sender.abandon();
  delete sender;
}
