// The C ABI: devices and their memory.
#include <string>

#include "c_api/handles.h"
#include "core/option_table.h"
#include "gpu/local_memory.h"
#include "memory/copy.h"
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

// A number for a field of one byte.
Status take_byte(const char* name, std::uint32_t given, std::uint8_t& option) {
  if (given > UINT8_MAX) {
    return Status::error(StatusCode::kInvalidArgument, {"take a fw_verbs_options"},
                         std::string(name) + " is " + std::to_string(given), "use at most 255");
  }
  option = static_cast<std::uint8_t>(given);
  return Status();
}

Status take_verbs_options(const fw_verbs_options& given, farwrite::VerbsOptions& options) {
  const auto sized = farwrite::c_api::taken("fw_verbs_options", given);
  if (!sized.ok()) return sized.status();
  const fw_verbs_options& c = sized.value();
  if (c.device != nullptr) options.device = c.device;
  FARWRITE_RETURN_IF_ERROR(take_byte("port", c.port, options.port));
  FARWRITE_RETURN_IF_ERROR(take_byte("retry_count", c.retry_count, options.retry_count));
  FARWRITE_RETURN_IF_ERROR(
      take_byte("rnr_retry_count", c.rnr_retry_count, options.rnr_retry_count));
  options.gid_index = c.gid_index;
  options.send_queue_depth = c.send_queue_depth;
  options.receive_credits = c.receive_credits;
  options.chunk_bytes = c.chunk_bytes;
  options.signal_every = c.signal_every;
  options.inline_bytes = c.inline_bytes;
  if (c.relaxed_ordering >= 0) options.relaxed_ordering = c.relaxed_ordering != 0;
  options.use_immediate = c.use_immediate != 0;
  options.assume_data_in_order = c.assume_in_order != 0;
  return Status();
}

fw_memory_stats memory_to_c(const farwrite::MemoryStats& stats) {
  fw_memory_stats known = {};
  known.struct_size = sizeof(known);
  known.limit = stats.limit;
  known.reserved = stats.reserved;
  known.used = stats.used;
  known.peak_used = stats.peak_used;
  known.segments = stats.segments;
  known.held_back = stats.held_back;
  known.refusals = stats.refusals;
  return known;
}

fw_status* hand_out_channel(farwrite::Result<farwrite::Channel> made, const fw_device& device,
                            fw_channel** channel) {
  if (!made.ok()) return to_c(made.status());
  *channel = new fw_channel{
      *std::move(made), std::make_shared<farwrite::c_api::SharedByHandles>(device.device.epoch())};
  return nullptr;
}

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
    const std::string_view secret =
        c.token_bytes != 0 ? std::string_view(c.token, c.token_bytes) : std::string_view(c.token);
    options.token = secret.empty() ? Token::none() : Token(std::string(secret));
  } else if (c.open_elsewhere != 0) {
    options.token = Token::cookie_else_none();
  }
  const farwrite::c_api::Numbers numbers(c.exact);
  numbers.take(c.send_limit, options.send_limit);
  numbers.take(c.send_limit_per_peer, options.send_limit_per_peer);
  numbers.take(c.receive_limit, options.receive_limit);
  numbers.take(c.receive_limit_per_peer, options.receive_limit_per_peer);
  numbers.take(c.segment_bytes, options.segment_bytes);
  numbers.take(c.receive_segment_bytes, options.receive_segment_bytes);
  numbers.take(c.spin_ns, options.spin);
  numbers.take(c.memory_idle_ns, options.memory_idle_time);
  numbers.take(c.detection_ns, options.detection_time);
  numbers.take(c.handshake_ns, options.handshake_timeout);
  numbers.take(c.host_ns, options.host_timeout);
  numbers.take(c.pollers, options.pollers);
  numbers.take(c.lanes, options.lanes);
  if (numbers.exact()) {
    if (c.huge_pages > static_cast<std::uint32_t>(farwrite::HugePages::kExplicit)) {
      return Status::error(StatusCode::kInvalidArgument, {"take a fw_device_options"},
                           "huge_pages is " + std::to_string(c.huge_pages),
                           "use a number of farwrite::HugePages");
    }
    options.huge_pages = static_cast<farwrite::HugePages>(c.huge_pages);
    options.prefault = c.prefault != 0;
    options.numa_node = c.numa_node;
  }
  if (c.data_port != 0) {
    FARWRITE_RETURN_IF_ERROR(
        farwrite::core::set_keyword("data_port", std::to_string(c.data_port), options));
  }
  options.encrypt = c.encrypt != 0;
  if (c.name != nullptr) options.name = c.name;
  if (c.verbs_fields != nullptr) {
    FARWRITE_RETURN_IF_ERROR(take_verbs_options(*c.verbs_fields, options.verbs));
  }
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
  Device closed = device->device;  // the handle may go with a callback
  return to_c(closed.close(to_duration(timeout_ns)));
}

void fw_device_release(fw_device* device) { delete device; }

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
  return hand_out_channel(device->device.connect(*peer, to_duration(timeout_ns)), *device, channel);
}

fw_status* fw_device_accept(fw_device* device, uint64_t timeout_ns, fw_channel** channel) {
  if (fw_status* const refused =
          refuse_null("accept", {{"device", device != nullptr}, {"channel", channel != nullptr}})) {
    return refused;
  }
  return hand_out_channel(device->device.accept(to_duration(timeout_ns)), *device, channel);
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

int fw_device_contains_all(const fw_device* device, const void* memory, uint64_t bytes) {
  return device != nullptr && device->device.contains(farwrite::ByteView(memory, bytes)) ? 1 : 0;
}

void fw_device_memory(const fw_device* device, fw_memory_stats* stats) {
  if (device == nullptr || stats == nullptr) return;
  farwrite::c_api::fill(*stats, memory_to_c(device->device.stats().send));
}

void fw_device_stats(const fw_device* device, fw_device_counts* stats) {
  if (device == nullptr || stats == nullptr) return;
  const farwrite::DeviceStats now = device->device.stats();
  fw_device_counts known = {};
  known.send = memory_to_c(now.send);
  known.receive = memory_to_c(now.receive);
  known.registrations = now.registrations;
  known.adapter_segments = now.adapters.segments;
  known.adapter_on_demand = now.adapters.on_demand;
  known.adapter_live = now.adapters.live;
  known.adapter_live_bytes = now.adapters.live_bytes;
  known.adapter_nanoseconds = now.adapters.nanoseconds;
  known.adapter_transfers = now.adapters.transfers;
  known.adapter_registered = now.adapters.transfers_registered;
  known.gpu_mappings = now.gpu.mappings;
  known.gpu_mapped_bytes = now.gpu.mapped_bytes;
  known.gpu_copies = now.gpu.copies;
  known.gpu_copied_bytes = now.gpu.copied_bytes;
  known.gpu_staged_bytes = now.gpu.staged_bytes;
  known.gpu_pins = now.gpu.pins;
  known.gpu_pinned_bytes = now.gpu.pinned_bytes;
  known.channels_opened = now.channels_opened;
  known.channels_open = now.channels_open;
  known.handshakes_refused = now.handshakes_refused;
  known.leases_held_by_peers = now.leases_held_by_peers;
  known.quarantined_bytes = now.quarantined_bytes;
  farwrite::c_api::fill(*stats, known);
}

uint64_t fw_device_choices(const fw_device* device, char* buffer, uint64_t capacity) {
  if (device == nullptr) return 0;
  std::string lines;
  for (const std::string& choice : device->device.stats().choices) lines += choice + "\n";
  return farwrite::c_api::copy_text(lines, buffer, capacity);
}

void fw_copy_kernels(void (*on_kernel)(void* context, const fw_copy_kernel* kernel),
                     void* context) {
  if (on_kernel == nullptr) return;
  for (const farwrite::CopyKernel& kernel : farwrite::copy_kernels()) {
    fw_copy_kernel known = {};
    known.struct_size = sizeof(known);
    known.name = kernel.name.data();  // a literal
    known.function = kernel.function;
    known.probed_gb_s = kernel.probed_gb_s;
    known.supported = kernel.supported ? 1 : 0;
    known.chosen = kernel.chosen ? 1 : 0;
    on_kernel(context, &known);
  }
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
  const MemoryKind host;
  const MemoryKind kind = gpu == host.ordinal() ? host : MemoryKind::cuda(gpu);
  return to_c(farwrite::wait_for_stream(kind, stream));
}
