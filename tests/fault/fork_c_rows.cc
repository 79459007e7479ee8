// The rows of the C ABI.
#include <utility>

#include "c_api/handles.h"
#include "fault/fixture.h"
#include "fault/fork_world.h"

namespace farwrite::fault {
namespace {

using W = ForkWorld;

constexpr StatusCode kForked = StatusCode::kForked;
constexpr StatusCode kOk = StatusCode::kOk;
constexpr std::uint64_t kSecond = 1'000'000'000;

char bytes[16];

StatusCode code(fw_status* status) {
  const StatusCode code = status == nullptr ? kOk : status->status.code();
  fw_status_free(status);
  return code;
}
// A fact, which a child may read; or a call that has no error.
template <typename Value>
StatusCode fact(const Value& /*value*/) {
  return kOk;
}
StatusCode is(bool expected) { return expected ? kOk : StatusCode::kInternal; }

void take_error(void* context, const char* error) {
  *static_cast<StatusCode*>(context) = error == nullptr ? kOk : kForked;
}
fw_tensor_handlers no_handlers() {
  fw_tensor_handlers all = {};
  all.struct_size = sizeof(all);
  all.on_message = [](void*, const fw_notification*) {};
  all.on_end = [](void*, int, const char*) {};
  all.on_landing = [](void*, const fw_landing*) {};
  all.on_slot = [](int) {};
  all.run_later = [](std::uint64_t, void (*)(void*), void*) {};
  return all;
}

std::vector<ForkRow> device_rows() {
  return {
      {"fw_abi_version", kOk, [](W&) { return fact(fw_abi_version()); }},
      {"fw_version", kOk, [](W&) { return fact(fw_version()); }},
      {"fw_status_code", kOk, [](W&) { return fact(fw_status_code(nullptr)); }},
      {"fw_status_code_name", kOk, [](W&) { return fact(fw_status_code_name(nullptr)); }},
      {"fw_status_message", kOk, [](W&) { return fact(fw_status_message(nullptr)); }},
      {"fw_status_free", kOk,
       [](W&) {
         fw_status_free(nullptr);
         return kOk;
       }},
      {"fw_read_option", kOk,
       [](W&) {
         const char* value = nullptr;
         return is(code(fw_read_option("no option", &value)) != kForked);
       }},
      {"fw_device_open", kOk,
       [](W&) {
         fw_device_options options = {};
         options.struct_size = sizeof(options);
         options.listen = "127.0.0.1:0";
         fw_device* device = nullptr;
         const StatusCode opened = code(fw_device_open(&options, &device));
         return opened == kOk ? code(fw_device_close(device, kSecond)) : opened;
       }},
      {"fw_device_close", kForked, [](W& w) { return code(fw_device_close(w.c_device, kSecond)); }},
      {"fw_device_identity", kOk,
       [](W& w) {
         fw_identity identity = {};
         identity.struct_size = sizeof(identity);
         fw_device_identity(w.c_device, &identity);
         return is(identity.epoch == w.device.epoch());
       }},
      {"fw_device_connect", kForked,
       [](W& w) {
         fw_channel* channel = nullptr;
         const std::string peer = w.other.endpoint().to_string();
         return code(fw_device_connect(w.c_device, peer.c_str(), kSecond, &channel));
       }},
      {"fw_device_accept", kForked,
       [](W& w) {
         fw_channel* channel = nullptr;
         return code(fw_device_accept(w.c_device, kSecond, &channel));
       }},
      {"fw_device_allocate", kOk,
       [](W& w) { return is(fw_device_allocate(w.c_device, 64) == nullptr); }},
      {"fw_device_deallocate", kOk,
       [](W& w) {
         fw_device_deallocate(w.c_device, w.exported.data());
         return kOk;
       }},
      {"fw_device_contains", kOk,
       [](W& w) { return is(fw_device_contains(w.c_device, w.exported.data()) == 1); }},
      {"fw_device_memory", kOk,
       [](W& w) {
         fw_memory_stats stats = {};
         stats.struct_size = sizeof(stats);
         fw_device_memory(w.c_device, &stats);
         return is(stats.used == 0);
       }},
      {"fw_device_metrics", kOk,
       [](W& w) { return is(fw_device_metrics(w.c_device, bytes, sizeof(bytes)) == 0); }},
      {"fw_copy", kOk,
       [](W& w) {
         fw_copy(bytes, w.exported.data(), sizeof(bytes));
         return kOk;
       }},
      {"fw_fork_stamp", kOk, [](W&) { return fact(fw_fork_stamp()); }},
      {"fw_forked_child_may_read", kOk, [](W&) { return is(fw_forked_child_may_read(0) == 0); }},
  };
}

std::vector<ForkRow> channel_rows() {
  return {
      {"fw_channel_peer", kOk,
       [](W& w) {
         fw_identity identity = {};
         identity.struct_size = sizeof(identity);
         fw_channel_peer(w.c_channel, &identity);
         return is(identity.epoch == w.other.epoch());
       }},
      {"fw_channel_peer_name", kOk, [](W& w) { return fact(fw_channel_peer_name(w.c_channel)); }},
      {"fw_channel_fabric", kOk, [](W& w) { return fact(fw_channel_fabric(w.c_channel)); }},
      {"fw_channel_fabric_reason", kOk,
       [](W& w) { return fact(fw_channel_fabric_reason(w.c_channel)); }},
      {"fw_channel_lanes", kOk, [](W& w) { return fact(fw_channel_lanes(w.c_channel)); }},
      {"fw_channel_max_message_bytes", kOk,
       [](W& w) { return fact(fw_channel_max_message_bytes(w.c_channel)); }},
      {"fw_channel_maps", kOk, [](W& w) { return fact(fw_channel_maps(w.c_channel)); }},
      {"fw_channel_serve", kForked,
       [](W& w) {
         return code(
             fw_channel_serve(w.c_channel, [](void*, const fw_notification*) {}, nullptr, nullptr));
       }},
      {"fw_channel_send", kForked,
       [](W& w) { return code(fw_channel_send(w.c_tensors, bytes, 16, 1, 0)); }},
      {"fw_channel_lend", kForked,
       [](W& w) {
         return code(fw_channel_lend(w.c_tensors, bytes, 16, w.exported.data(), 16, nullptr,
                                     nullptr, 1, 0));
       }},
      {"fw_channel_close", kForked,
       [](W& w) { return code(fw_channel_close(w.c_tensors, kSecond)); }},
      {"fw_channel_allocate", kForked,
       [](W& w) {
         fw_region* region = nullptr;
         return code(fw_channel_allocate(w.c_channel, 64, &region));
       }},
      {"fw_channel_open", kForked,
       [](W& w) {
         fw_target* target = nullptr;
         const auto text = w.remote_landing.descriptor().to_bytes();
         return code(fw_channel_open(w.c_channel, text.data(), text.size(), kSecond, &target));
       }},
      {"fw_channel_serve_tensors", kForked,
       [](W& w) {
         const fw_tensor_handlers all = no_handlers();
         return code(fw_channel_serve_tensors(w.c_channel, &all, nullptr));
       }},
      {"fw_channel_push", kForked,
       [](W& w) {
         int pushed = 0;
         return code(fw_channel_push(w.c_tensors, "edge", 4, bytes, 4, bytes, 16, 0, take_error,
                                     nullptr, &pushed));
       }},
      {"fw_channel_has_slot", kOk,
       [](W& w) { return is(fw_channel_has_slot(w.c_tensors, "edge", 4, 16) == 0); }},
      {"fw_channel_want_slots", kOk,
       [](W& w) {
         fw_channel_want_slots(w.c_tensors, "edge", 4, 16);
         return kOk;
       }},
      {"fw_slots", kOk,
       [](W&) {
         fw_slot_stats stats = {};
         stats.struct_size = sizeof(stats);
         fw_slots(&stats);
         return kOk;
       }},
      {"fw_landed_release", kOk,
       [](W&) {
         fw_landed_release(new fw_landed{});
         return kOk;
       }},
  };
}

std::vector<ForkRow> memory_rows() {
  return {
      {"fw_view_bytes", kOk, [](W& w) { return fact(fw_view_bytes(w.c_view)); }},
      {"fw_view_ready", kOk, [](W& w) { return is(fw_view_ready(w.c_view) == 1); }},
      {"fw_view_maps", kOk, [](W& w) { return fact(fw_view_maps(w.c_view)); }},
      {"fw_view_read", kForked,
       [](W& w) {
         StatusCode heard = StatusCode::kInternal;
         std::vector<std::byte> out(fw_view_bytes(w.c_view));
         fw_view_read(w.c_view, out.data(), 0, take_error, &heard);
         return heard;
       }},
      {"fw_view_map", kForked,
       [](W& w) {
         const void* data = nullptr;
         std::uint64_t size = 0;
         return code(fw_view_map(w.c_view, &data, &size));
       }},
      {"fw_view_release", kOk,
       [](W& w) {
         fw_view_release(w.c_view);
         return kOk;
       }},
      {"fw_region_data", kOk, [](W& w) { return fact(fw_region_data(w.c_region)); }},
      {"fw_region_describe", kOk,
       [](W& w) { return fact(fw_region_describe(w.c_region, bytes, sizeof(bytes))); }},
      {"fw_region_release", kOk,
       [](W& w) {
         fw_region_release(w.c_region);
         return kOk;
       }},
      {"fw_target_bytes", kOk, [](W& w) { return fact(fw_target_bytes(w.c_target)); }},
      {"fw_target_write", kForked,
       [](W& w) {
         return code(fw_target_write(w.c_target, bytes, 8, bytes, 16, 1, 0, take_error, nullptr));
       }},
      {"fw_target_release", kOk,
       [](W& w) {
         fw_target_release(w.c_target);
         return kOk;
       }},
  };
}

}  // namespace

std::vector<ForkRow> c_fork_rows() {
  std::vector<ForkRow> rows;
  for (const auto& part : {device_rows(), channel_rows(), memory_rows()}) {
    rows.insert(rows.end(), part.begin(), part.end());
  }
  return rows;
}

}  // namespace farwrite::fault
