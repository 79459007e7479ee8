// Functions without a status, for NULL as their handle: of devices, channels and memory.
#include "fault/c_null_calls.h"

namespace farwrite::fault {

NullCalls null_handle_calls() {
  return {
      .refused = {},
      .nothing =
          {
              {"fw_status_free", [] { return fw_status_free(nullptr), true; }},
              {"fw_device_close", [] { return fw_device_close(nullptr, 0) == nullptr; }},
              {"fw_device_release", [] { return fw_device_release(nullptr), true; }},
              {"fw_device_contains_all",
               [] { return fw_device_contains_all(nullptr, "m", 1) == 0; }},
              {"fw_device_stats",
               [] {
                 fw_device_counts stats = {};
                 stats.struct_size = sizeof(stats);
                 fw_device_stats(nullptr, &stats);
                 return stats.channels_opened == 0;
               }},
              {"fw_device_choices", [] { return fw_device_choices(nullptr, nullptr, 8) == 0; }},
              {"fw_copy_kernels", [] { return fw_copy_kernels(nullptr, nullptr), true; }},
              {"fw_channel_peer_info",
               [] {
                 fw_peer_info info = {};
                 info.struct_size = sizeof(info);
                 fw_channel_peer_info(nullptr, &info);
                 return info.name == nullptr;
               }},
              {"fw_channel_stats",
               [] {
                 fw_channel_counts stats = {};
                 stats.struct_size = sizeof(stats);
                 fw_channel_stats(nullptr, &stats);
                 return stats.writes == 0;
               }},
              {"fw_channel_release", [] { return fw_channel_release(nullptr), true; }},
              {"fw_remote_gpu", [] { return fw_remote_gpu(nullptr) == -1; }},
              {"fw_remote_access", [] { return fw_remote_access(nullptr) == 0; }},
              {"fw_remote_describe", [] { return fw_remote_describe(nullptr, nullptr, 0) == 0; }},
              {"fw_region_gpu", [] { return fw_region_gpu(nullptr) == -1; }},
              {"fw_region_access", [] { return fw_region_access(nullptr) == 0; }},
              {"fw_device_identity",
               [] {
                 fw_identity identity = {};
                 identity.struct_size = sizeof(identity);
                 fw_device_identity(nullptr, &identity);
                 return identity.epoch == 0;
               }},
              {"fw_device_allocate", [] { return fw_device_allocate(nullptr, 8) == nullptr; }},
              {"fw_device_deallocate", [] { return fw_device_deallocate(nullptr, nullptr), true; }},
              {"fw_device_contains", [] { return fw_device_contains(nullptr, nullptr) == 0; }},
              {"fw_device_memory",
               [] {
                 fw_memory_stats stats = {};
                 stats.struct_size = sizeof(stats);
                 fw_device_memory(nullptr, &stats);
                 return stats.limit == 0;
               }},
              {"fw_device_metrics", [] { return fw_device_metrics(nullptr, nullptr, 8) == 0; }},
              {"fw_channel_peer_name", [] { return *fw_channel_peer_name(nullptr) == 0; }},
              {"fw_channel_share", [] { return fw_channel_share(nullptr) == nullptr; }},
              {"fw_channel_same", [] { return fw_channel_same(nullptr, nullptr) == 0; }},
              {"fw_channel_max_message_bytes",
               [] { return fw_channel_max_message_bytes(nullptr) == 0; }},
              {"fw_channel_maps", [] { return fw_channel_maps(nullptr) == 0; }},
              {"fw_channel_state", [] { return fw_channel_state(nullptr) == FW_PEER_CLOSED; }},
              {"fw_channel_disarm", [] { return fw_channel_disarm(nullptr), true; }},
              {"fw_channel_close", [] { return fw_channel_close(nullptr, 0) == nullptr; }},
              {"fw_remote_bytes", [] { return fw_remote_bytes(nullptr) == 0; }},
              {"fw_remote_ready", [] { return fw_remote_ready(nullptr) == 0; }},
              {"fw_remote_maps", [] { return fw_remote_maps(nullptr) == 0; }},
              {"fw_remote_release", [] { return fw_remote_release(nullptr), true; }},
              {"fw_remote_description", [] { return *fw_remote_description(nullptr) == 0; }},
              {"fw_completion_done", [] { return fw_completion_done(nullptr) == 1; }},
              {"fw_completion_settled", [] { return fw_completion_settled(nullptr) == 1; }},
              {"fw_completion_wait", [] { return fw_completion_wait(nullptr, 0) == nullptr; }},
              {"fw_completion_cancel", [] { return fw_completion_cancel(nullptr), true; }},
              {"fw_completion_free", [] { return fw_completion_free(nullptr), true; }},
              {"fw_registration_has_effect",
               [] { return fw_registration_has_effect(nullptr) == 0; }},
              {"fw_registration_release", [] { return fw_registration_release(nullptr), true; }},
              {"fw_region_bytes", [] { return fw_region_bytes(nullptr) == 0; }},
              {"fw_region_close", [] { return fw_region_close(nullptr, 0) == nullptr; }},
              {"fw_region_data", [] { return fw_region_data(nullptr) == nullptr; }},
              {"fw_region_describe", [] { return fw_region_describe(nullptr, nullptr, 0) == 0; }},
              {"fw_region_release", [] { return fw_region_release(nullptr), true; }},
              {"fw_channel_has_slot", [] { return fw_channel_has_slot(nullptr, "e", 1, 8) == 0; }},
              {"fw_channel_want_slots",
               [] { return fw_channel_want_slots(nullptr, "e", 1, 8), true; }},
              {"fw_landed_release", [] { return fw_landed_release(nullptr), true; }},
              {"fw_slots", [] { return fw_slots(nullptr), true; }},
          },
  };
}

}  // namespace farwrite::fault
