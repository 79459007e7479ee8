// The C ABI: regions, the peer's memory, and registered memory.
#include <string>

#include "c_api/handles.h"
#include "memory/private_view.h"

using farwrite::c_api::bytes_at;
using farwrite::c_api::refuse_null;
using farwrite::c_api::to_c;
using farwrite::c_api::to_duration;

static_assert(FW_READ_ONLY == static_cast<int>(farwrite::Access::kRead) &&
              FW_WRITABLE == static_cast<int>(farwrite::Access::kWrite));

namespace {

uint64_t copy_descriptor(const farwrite::RegionDescriptor& descriptor, void* buffer,
                         uint64_t capacity) {
  const auto bytes = descriptor.to_bytes();
  if (buffer != nullptr && bytes.size() <= capacity) {
    std::memcpy(buffer, bytes.data(), bytes.size());
  }
  return bytes.size();
}

}  // namespace

void* fw_region_data(const fw_region* region) {
  return region == nullptr ? nullptr : region->region.data();
}

uint64_t fw_region_bytes(const fw_region* region) {
  return region == nullptr ? 0 : region->region.size();
}

int fw_region_gpu(const fw_region* region) {
  return region == nullptr ? -1 : region->region.kind().ordinal();
}

uint32_t fw_region_access(const fw_region* region) {
  return region == nullptr ? 0 : static_cast<uint32_t>(region->region.access());
}

uint64_t fw_region_describe(const fw_region* region, void* buffer, uint64_t capacity) {
  return region == nullptr ? 0 : copy_descriptor(region->region.descriptor(), buffer, capacity);
}

fw_status* fw_region_close(fw_region* region, uint64_t timeout_ns) {
  return region == nullptr ? nullptr : to_c(region->region.close(to_duration(timeout_ns)));
}

void fw_region_release(fw_region* region) { delete region; }

uint64_t fw_remote_bytes(const fw_remote* remote) {
  return remote == nullptr ? 0 : remote->region.size();
}

const char* fw_remote_description(const fw_remote* remote) {
  return remote == nullptr ? "" : remote->region.description().c_str();
}

int fw_remote_gpu(const fw_remote* remote) {
  return remote == nullptr ? -1 : remote->region.kind().ordinal();
}

uint32_t fw_remote_access(const fw_remote* remote) {
  return remote == nullptr ? 0 : static_cast<uint32_t>(remote->region.access());
}

uint64_t fw_remote_describe(const fw_remote* remote, void* buffer, uint64_t capacity) {
  return remote == nullptr ? 0 : copy_descriptor(remote->region.descriptor(), buffer, capacity);
}

int fw_remote_is_of(const fw_remote* remote, const fw_channel* channel) {
  return remote != nullptr && channel != nullptr && remote->channel == channel->channel ? 1 : 0;
}

int fw_remote_ready(const fw_remote* remote) {
  return remote != nullptr && remote->region.reached() ? 1 : 0;
}

int fw_remote_maps(const fw_remote* remote) {
  return remote != nullptr && remote->channel.maps_peer_memory() ? 1 : 0;
}

fw_status* fw_remote_map(fw_remote* remote, uint64_t timeout_ns, const void** data,
                         uint64_t* bytes) {
  if (fw_status* const refused =
          refuse_null("map a peer's memory", {{"remote", remote != nullptr},
                                              {"data", data != nullptr},
                                              {"bytes", bytes != nullptr}})) {
    return refused;
  }
  auto alias =
      remote->channel.alias(remote->region, 0, remote->region.size(), to_duration(timeout_ns));
  if (!alias.ok()) return to_c(alias.status());
  *data = alias->data();
  *bytes = alias->size();
  return nullptr;
}

fw_status* fw_remote_view(fw_remote* remote, uint64_t offset, uint64_t bytes, uint64_t timeout_ns,
                          fw_slice* slice) {
  if (fw_status* const refused = refuse_null(
          "map a peer's memory", {{"remote", remote != nullptr}, {"slice", slice != nullptr}})) {
    return refused;
  }
  auto alias = remote->channel.alias(remote->region, offset, bytes, to_duration(timeout_ns));
  if (!alias.ok()) return to_c(alias.status());
  const auto held = std::make_shared<const farwrite::Alias>(*std::move(alias));
  *slice = {held->data(), held->size(), new fw_lease{held}};
  return nullptr;
}

fw_status* fw_remote_read(fw_remote* remote, uint64_t offset, void* destination, uint64_t bytes,
                          uint32_t lane, fw_completion** completion) {
  if (remote == nullptr || completion == nullptr || (destination == nullptr && bytes != 0))
      [[unlikely]] {
    return refuse_null("read", {{"remote", remote != nullptr},
                                bytes_at("destination", destination, bytes),
                                {"completion", completion != nullptr}});
  }
  return to_c(remote->channel.read({destination, bytes}, remote->region, offset, lane), completion);
}

fw_status* fw_remote_write(fw_remote* remote, uint64_t offset, const void* source, uint64_t bytes,
                           uint32_t lane, fw_completion** completion) {
  if (remote == nullptr || completion == nullptr || (source == nullptr && bytes != 0))
      [[unlikely]] {
    return refuse_null("write", {{"remote", remote != nullptr},
                                 bytes_at("source", source, bytes),
                                 {"completion", completion != nullptr}});
  }
  return to_c(remote->channel.write({source, bytes}, remote->region, offset, lane), completion);
}

fw_status* fw_remote_write_notify(fw_remote* remote, uint64_t offset, const void* head,
                                  uint64_t head_bytes, const void* source, uint64_t bytes,
                                  uint32_t tag, uint32_t lane, fw_completion** completion) {
  if (remote == nullptr || completion == nullptr || (head == nullptr && head_bytes != 0) ||
      (source == nullptr && bytes != 0)) [[unlikely]] {
    return refuse_null("write", {{"remote", remote != nullptr},
                                 bytes_at("head", head, head_bytes),
                                 bytes_at("source", source, bytes),
                                 {"completion", completion != nullptr}});
  }
  return to_c(remote->channel.write_with_notify({head, head_bytes}, {source, bytes}, remote->region,
                                                offset, tag, lane),
              completion);
}

void fw_remote_release(fw_remote* remote) { delete remote; }

int fw_registration_has_effect(const fw_registration* registration) {
  return registration != nullptr && registration->registration.has_effect() ? 1 : 0;
}

void fw_registration_release(fw_registration* registration) { delete registration; }

fw_status* fw_lease_make(fw_release release, void* owner, fw_lease** lease) {
  if (fw_status* const refused = refuse_null(
          "make a lease", {{"release", release != nullptr}, {"lease", lease != nullptr}})) {
    return refused;
  }
  *lease = new fw_lease{farwrite::c_api::keep(owner, release)};
  return nullptr;
}

fw_status* fw_private_view(const void* data, uint64_t bytes, fw_slice* slice) {
  constexpr const char* kOperation = "map a private view";
  if (fw_status* const refused =
          refuse_null(kOperation, {bytes_at("data", data, bytes), {"slice", slice != nullptr}})) {
    return refused;
  }
  if (fw_status* const refused = farwrite::c_api::refuse_wrapping(kOperation, data, bytes)) {
    return refused;
  }
  auto view = farwrite::memory::PrivateView::of({data, bytes});
  if (!view.ok()) return to_c(view.status());
  const auto held = std::make_shared<const farwrite::memory::PrivateView>(*std::move(view));
  *slice = {held->bytes().data, held->bytes().size, new fw_lease{held}};
  return nullptr;
}

void fw_lease_release(fw_lease* lease) { delete lease; }
