// The C ABI: landing memory.
#include <cstring>

#include "c_api/handles.h"

using farwrite::Completion;
using farwrite::Status;
using farwrite::c_api::bytes_at;
using farwrite::c_api::refuse_null;
using farwrite::c_api::to_c;

int fw_channel_maps(const fw_channel* channel) {
  return channel != nullptr && channel->channel.maps_peer_memory() ? 1 : 0;
}

fw_status* fw_channel_allocate(fw_channel* channel, uint64_t bytes, fw_region** region) {
  if (fw_status* const refused = refuse_null(
          "allocate", {{"channel", channel != nullptr}, {"region", region != nullptr}})) {
    return refused;
  }
  auto allocated = channel->channel.allocate(bytes);
  if (!allocated.ok()) return to_c(allocated.status());
  *region = new fw_region{*std::move(allocated)};
  return nullptr;
}

void* fw_region_data(const fw_region* region) {
  return region == nullptr ? nullptr : region->region.data();
}

uint64_t fw_region_describe(const fw_region* region, void* buffer, uint64_t capacity) {
  if (region == nullptr) return 0;
  const auto descriptor = region->region.descriptor().to_bytes();
  if (buffer != nullptr && descriptor.size() <= capacity)
    std::memcpy(buffer, descriptor.data(), descriptor.size());
  return descriptor.size();
}

void fw_region_release(fw_region* region) { delete region; }

fw_status* fw_channel_open(fw_channel* channel, const void* descriptor, uint64_t bytes,
                           uint64_t timeout_ns, fw_target** target) {
  if (fw_status* const refused =
          refuse_null("open a region", {{"channel", channel != nullptr},
                                        {"descriptor", descriptor != nullptr},
                                        {"target", target != nullptr}})) {
    return refused;
  }
  auto parsed = farwrite::RegionDescriptor::from_bytes({descriptor, bytes});
  if (!parsed.ok()) return to_c(parsed.status());
  auto opened = channel->channel.open(*parsed, farwrite::c_api::to_duration(timeout_ns));
  if (!opened.ok()) return to_c(opened.status());
  *target = new fw_target{channel->channel, *std::move(opened)};
  return nullptr;
}

uint64_t fw_target_bytes(const fw_target* target) {
  return target == nullptr ? 0 : target->region.size();
}

void fw_target_release(fw_target* target) { delete target; }

fw_status* fw_target_write(fw_target* target, const void* head, uint64_t head_bytes,
                           const void* source, uint64_t source_bytes, uint32_t tag, uint32_t lane,
                           fw_write_done done, void* context) {
  if (fw_status* const refused = refuse_null("write", {{"target", target != nullptr},
                                                       bytes_at("head", head, head_bytes),
                                                       bytes_at("source", source, source_bytes),
                                                       {"done", done != nullptr}})) {
    return refused;
  }
  const Completion write = target->channel.write_with_notify(
      {head, head_bytes}, {source, source_bytes}, target->region, 0, tag, lane);
  // Settled, not just done: a peer that goes ends the waiting while bytes may still be on their
  // way.
  if (write.settled()) {
    const Status status = write.wait();
    if (!status.ok()) return to_c(status);
  }
  write.on_settled([=](const Status& status) {
    done(context, status.ok() ? nullptr : status.message().c_str());
  });
  return nullptr;
}
