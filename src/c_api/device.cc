// The C ABI: devices and their memory.
#include <string>

#include "c_api/handles.h"
#include "core/option_table.h"
#include "farwrite/copy.h"
#include "memory/forked_readers.h"

namespace {

using farwrite::Device;
using farwrite::DeviceOptions;
using farwrite::MemoryKind;
using farwrite::Result;
using farwrite::Status;
using farwrite::StatusCode;
using farwrite::Token;
using farwrite::c_api::bytes_at;
using farwrite::c_api::hand_out;
using farwrite::c_api::refuse_null;
using farwrite::c_api::to_c;
using farwrite::c_api::to_duration;

}  // namespace

Result<DeviceOptions> farwrite::c_api::to_options(const fw_device_options* given) {
  DeviceOptions options;
  if (given == nullptr) return options;
  const auto sized = farwrite::c_api::taken("fw_device_options", *given);
  if (!sized.ok()) return sized.status();
  const fw_device_options& c = sized.value();
  if (c.listen != nullptr) {
    FARWRITE_RETURN_IF_ERROR(farwrite::core::set_keyword("listen", c.listen, options));
  }
  if (c.port_range != nullptr) {
    FARWRITE_RETURN_IF_ERROR(farwrite::core::set_keyword("port_range", c.port_range, options));
  }
  if (c.fabrics != nullptr) {
    FARWRITE_RETURN_IF_ERROR(farwrite::core::set_keyword("fabrics", c.fabrics, options));
  }
  if (c.token != nullptr) {
    options.token = *c.token == '\0' ? Token::none() : Token(c.token);
  } else if (c.open_elsewhere != 0) {
    options.token = Token::cookie_else_none();
  }
  take_if_given(c.send_limit, options.send_limit);
  take_if_given(c.send_limit_per_peer, options.send_limit_per_peer);
  take_if_given(c.receive_limit, options.receive_limit);
  take_if_given(c.receive_limit_per_peer, options.receive_limit_per_peer);
  take_if_given(c.segment_bytes, options.segment_bytes);
  if (c.spin_ns != 0) options.spin = to_duration(c.spin_ns);
  take_if_given(c.pollers, options.pollers);
  take_if_given(c.lanes, options.lanes);
  if (c.data_port != 0) {
    FARWRITE_RETURN_IF_ERROR(
        farwrite::core::set_keyword("data_port", std::to_string(c.data_port), options));
  }
  options.encrypt = c.encrypt != 0;
  if (c.name != nullptr) options.name = c.name;
  if (c.verbs != nullptr) {
    FARWRITE_RETURN_IF_ERROR(farwrite::set_verbs_options(c.verbs, options.verbs));
  }
  if (c.environment != 0) {
    FARWRITE_RETURN_IF_ERROR(farwrite::core::read_environment(farwrite::core::kInPlugin, options));
  }
  return options;
}

fw_status* fw_device_open(const fw_device_options* options, fw_device** device) {
  if (fw_status* const refused = refuse_null("open a device", {{"device", device != nullptr}})) {
    return refused;
  }
  auto chosen = farwrite::c_api::to_options(options);
  if (!chosen.ok()) return to_c(chosen.status());
  return hand_out(Device::open(*chosen), device);
}

fw_status* fw_device_close(fw_device* device, uint64_t timeout_ns) {
  if (device == nullptr) return nullptr;
  const Status status = device->device.close(to_duration(timeout_ns));
  // Refused inside a callback.
  if (status.code() != StatusCode::kFailedPrecondition) delete device;
  return to_c(status);
}

void fw_device_identity(const fw_device* device, fw_identity* identity) {
  if (device == nullptr || identity == nullptr) return;
  farwrite::c_api::fill(
      *identity, to_c(device->device.uuid(), device->device.epoch(), device->device.endpoint()));
}

fw_status* fw_device_connect(fw_device* device, const char* endpoint, uint64_t timeout_ns,
                             fw_channel** channel) {
  if (fw_status* const refused = refuse_null("connect", {{"device", device != nullptr},
                                                         {"endpoint", endpoint != nullptr},
                                                         {"channel", channel != nullptr}})) {
    return refused;
  }
  auto peer = farwrite::Endpoint::parse(endpoint);
  if (!peer.ok()) return to_c(peer.status());
  auto connected = device->device.connect(*peer, to_duration(timeout_ns));
  if (!connected.ok()) return to_c(connected.status());
  *channel =
      new fw_channel{.channel = *std::move(connected), .device_epoch = device->device.epoch()};
  return nullptr;
}

fw_status* fw_device_accept(fw_device* device, uint64_t timeout_ns, fw_channel** channel) {
  if (fw_status* const refused =
          refuse_null("accept", {{"device", device != nullptr}, {"channel", channel != nullptr}})) {
    return refused;
  }
  auto accepted = device->device.accept(to_duration(timeout_ns));
  if (!accepted.ok()) return to_c(accepted.status());
  *channel =
      new fw_channel{.channel = *std::move(accepted), .device_epoch = device->device.epoch()};
  return nullptr;
}

void* fw_device_allocate(fw_device* device, uint64_t bytes) {
  return device == nullptr ? nullptr : device->device.allocate_raw(bytes);
}

void fw_device_deallocate(fw_device* device, void* memory) {
  if (device != nullptr) device->device.free_raw(static_cast<std::byte*>(memory));
}

int fw_device_contains(const fw_device* device, const void* memory) {
  return device != nullptr && device->device.contains(memory) ? 1 : 0;
}

void fw_device_memory(const fw_device* device, fw_memory_stats* stats) {
  if (device == nullptr || stats == nullptr) return;
  const farwrite::MemoryStats send = device->device.stats().send;
  fw_memory_stats known = {};
  known.limit = send.limit;
  known.reserved = send.reserved;
  known.used = send.used;
  known.peak_used = send.peak_used;
  known.segments = send.segments;
  known.held_back = send.held_back;
  farwrite::c_api::fill(*stats, known);
}

uint64_t fw_fork_stamp(void) { return farwrite::memory::ForkedReaders::stamp(); }

int fw_forked_child_may_read(uint64_t stamp) {
  return farwrite::memory::ForkedReaders::may_read(stamp) ? 1 : 0;
}

uint64_t fw_device_metrics(const fw_device* device, char* buffer, uint64_t capacity) {
  if (device == nullptr) return 0;
  return farwrite::c_api::copy_text(device->device.metrics_text(), buffer, capacity);
}

void fw_copy(void* destination, const void* source, uint64_t bytes) {
  if (destination != nullptr && source != nullptr) {
    farwrite::copy_bytes(destination, source, bytes);
  }
}

fw_status* fw_device_region(fw_device* device, uint64_t bytes, const char* kind,
                            fw_region** region) {
  if (fw_status* const refused =
          refuse_null("allocate", {{"device", device != nullptr}, {"region", region != nullptr}})) {
    return refused;
  }
  const auto where = farwrite::c_api::to_kind(kind);
  if (!where.ok()) return to_c(where.status());
  return hand_out(device->device.allocate(bytes, where.value()), region);
}

fw_status* fw_device_publish(fw_device* device, const char* name, const fw_region* region,
                             const char* description) {
  if (fw_status* const refused = refuse_null("publish", {{"device", device != nullptr},
                                                         {"name", name != nullptr},
                                                         {"region", region != nullptr}})) {
    return refused;
  }
  return to_c(
      device->device.publish(name, region->region, description == nullptr ? "" : description));
}

fw_status* fw_device_unpublish(fw_device* device, const char* name) {
  if (fw_status* const refused =
          refuse_null("unpublish", {{"device", device != nullptr}, {"name", name != nullptr}})) {
    return refused;
  }
  return to_c(device->device.unpublish(name));
}

fw_status* fw_device_register(fw_device* device, void* memory, uint64_t bytes, int writable,
                              fw_registration** registration) {
  if (fw_status* const refused =
          refuse_null("register memory", {{"device", device != nullptr},
                                          bytes_at("memory", memory, bytes),
                                          {"registration", registration != nullptr}})) {
    return refused;
  }
  if (fw_status* const refused =
          farwrite::c_api::refuse_wrapping("register memory", memory, bytes)) {
    return refused;
  }
  return hand_out(writable != 0
                      ? device->device.register_memory(farwrite::MutableByteView(memory, bytes))
                      : device->device.register_memory(farwrite::ByteView(memory, bytes)),
                  registration);
}

fw_status* fw_use_cuda(void) { return to_c(farwrite::use_cuda()); }

fw_status* fw_gpu_of_memory(const void* address, int* gpu) {
  if (fw_status* const refused = refuse_null(
          "look up memory", {{"address", address != nullptr}, {"gpu", gpu != nullptr}})) {
    return refused;
  }
  const auto kind = farwrite::kind_of_memory(address);
  if (!kind.ok()) return to_c(kind.status());
  *gpu = kind.value().ordinal();
  return nullptr;
}

fw_status* fw_copy_memory(void* destination, const void* source, uint64_t bytes) {
  if (fw_status* const refused = refuse_null(
          "copy memory",
          {bytes_at("destination", destination, bytes), bytes_at("source", source, bytes)})) {
    return refused;
  }
  return to_c(farwrite::copy_memory(destination, source, bytes));
}

fw_status* fw_wait_for_stream(int gpu, uint64_t stream) {
  return to_c(farwrite::wait_for_stream(MemoryKind::cuda(gpu), stream));
}
