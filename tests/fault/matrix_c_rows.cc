// The rows of the C ABI. A call that fails writes no output and calls no callback later.
#include <cstdint>
#include <utility>

#include "c_api/handles.h"
#include "c_handles.h"
#include "farwrite/c_api.h"
#include "fault/fixture.h"
#include "fault/matrix_c_calls.h"
#include "fault/matrix_world.h"

namespace farwrite::fault {
namespace {

using W = MatrixWorld;

const char bytes[16] = {};  // what is sent and written

void close_channel(fw_channel* channel) { fw_status_free(finish(channel, limit_ns())); }

std::vector<Row> device_rows() {
  return {
      fact("fw_abi_version", [](W&) { return fw_abi_version(); }),
      fact("fw_version", [](W&) { return fw_version(); }),
      fact("fw_set_interrupt", [](W&) { fw_set_interrupt(nullptr, nullptr); }),
      fact("fw_status_code", [](W&) { return fw_status_code(nullptr); }),
      fact("fw_status_code_name", [](W&) { return fw_status_code_name(nullptr); }),
      fact("fw_status_message", [](W&) { return fw_status_message(nullptr); }),
      fact("fw_status_free", [](W&) { fw_status_free(nullptr); }),
      fact("fw_read_option",
           [](W&) {
             const char* value = nullptr;
             return status_of(fw_read_option("FARWRITE_TF_LANDING", &value));
           }),
      fact("fw_device_open",
           [](W&) {
             fw_device_options options = {};
             options.struct_size = sizeof(options);
             options.listen = "127.0.0.1:0";
             options.send_limit = options.receive_limit = 8 << 20;
             options.send_limit_per_peer = options.receive_limit_per_peer = 8 << 20;
             options.segment_bytes = 2 << 20;
             Output<fw_device> device;
             return device.check(fw_device_open(&options, device), [](fw_device* opened) {
               fw_status_free(finish(opened, limit_ns()));
             });
           }),
      ending("fw_device_close",
             [](W& w) { return status_of(fw_device_close(w.c_device, limit_ns())); }),
      fact("fw_device_release",
           [](W& w) { fw_device_release(std::exchange(w.c_device, nullptr)); }),
      fact("fw_device_identity",
           [](W& w) {
             fw_identity identity = {};
             identity.struct_size = sizeof(identity);
             fw_device_identity(w.c_device, &identity);
             return identity.epoch;
           }),
      peer("fw_device_connect",
           [](W& w) {
             Output<fw_channel> channel;
             const std::string address = w.peer.to_string();
             return channel.check(
                 fw_device_connect(w.c_device, address.c_str(), limit_ns(), channel),
                 close_channel);
           },
           {{"killed", kNoAnswer}, {"closed", kNoAnswer}}),
      own("fw_device_accept",
          [](W& w) {
            Output<fw_channel> channel;
            return channel.check(fw_device_accept(w.c_device, limit_ns(), channel), close_channel);
          },
          {{"none", kLate}, {"killed", kLate}, {"stopped", kLate}, {"closed", kLate}}),
      count("fw_device_allocate",
            [](W& w) {
              void* const memory = fw_device_allocate(w.c_device, 64);
              const bool nothing = memory == nullptr;
              if (!nothing) fw_device_deallocate(w.c_device, memory);
              return w.counted(nothing);
            }),
      fact("fw_device_deallocate", [](W& w) { fw_device_deallocate(w.c_device, nullptr); }),
      fact("fw_device_contains",
           [](W& w) { return w.in_child(fw_device_contains(w.c_device, w.exported.data()) == 1); }),
      fact("fw_device_contains_all",
           [](W& w) {
             return w.in_child(
                 fw_device_contains_all(w.c_device, w.exported.data(), w.exported.size()) == 1);
           }),
      count("fw_device_stats",
            [](W& w) {
              fw_device_counts stats = {};
              stats.struct_size = sizeof(stats);
              fw_device_stats(w.c_device, &stats);
              return w.counted(stats.channels_opened == 0);
            }),
      count("fw_device_choices",
            [](W& w) { return w.counted(fw_device_choices(w.c_device, nullptr, 0) == 0); }),
      fact("fw_copy_kernels",
           [](W&) { fw_copy_kernels([](void*, const fw_copy_kernel*) {}, nullptr); }),
      count("fw_device_memory",
            [](W& w) {
              fw_memory_stats stats = {};
              stats.struct_size = sizeof(stats);
              fw_device_memory(w.c_device, &stats);
              return w.counted(stats.used == 0);
            }),
      count("fw_device_metrics",
            [](W& w) {
              char text[64];
              return w.counted(fw_device_metrics(w.c_device, text, sizeof(text)) == 0);
            }),
      fact("fw_copy",
           [](W& w) {
             char copied[16];
             fw_copy(copied, w.exported.data(), sizeof(copied));
           }),
      own("fw_device_region",
          [](W& w) {
            Output<fw_region> region;
            return region.check(fw_device_region(w.c_device, 64, nullptr, region),
                                fw_region_release);
          }),
      own("fw_device_publish",
          [](W& w) {
            const fw_region exported{w.exported};
            return status_of(fw_device_publish(w.c_device, "c", &exported, "text"));
          }),
      own("fw_device_unpublish",
          [](W& w) {
            const fw_region exported{w.exported};
            fw_status_free(fw_device_publish(w.c_device, "c_export", &exported, nullptr));
            return status_of(fw_device_unpublish(w.c_device, "c_export"));
          }),
      own("fw_device_register",
          [](W& w) {
            static char own[64];
            Output<fw_registration> registration;
            return registration.check(
                fw_device_register(w.c_device, own, sizeof(own), 1, registration),
                fw_registration_release);
          }),
      fact("fw_registration_has_effect", [](W&) { return fw_registration_has_effect(nullptr); }),
      fact("fw_registration_release", [](W&) { fw_registration_release(nullptr); }),
      fact("fw_use_cuda", [](W&) { fw_status_free(fw_use_cuda()); }),
      fact("fw_gpu_of_memory",
           [](W&) {
             int gpu = 7;
             return status_of(fw_gpu_of_memory(bytes, &gpu));
           }),
      fact("fw_copy_memory",
           [](W&) {
             char copied[16];
             return status_of(fw_copy_memory(copied, bytes, sizeof(copied)));
           }),
      fact("fw_wait_for_stream", [](W&) { fw_status_free(fw_wait_for_stream(0, 1)); }),
      fact("fw_fork_stamp", [](W&) { return fw_fork_stamp(); }),
      fact("fw_forked_child_may_read", [](W&) { return fw_forked_child_may_read(0); }),
  };
}

std::vector<Row> channel_rows() {
  return {
      fact("fw_channel_peer_info",
           [](W& w) {
             fw_peer_info info = {};
             info.struct_size = sizeof(info);
             fw_channel_peer_info(w.c_channel, &info);
             return info.identity.epoch;
           }),
      count("fw_channel_stats",
            [](W& w) {
              fw_channel_counts stats = {};
              stats.struct_size = sizeof(stats);
              fw_channel_stats(w.c_channel, &stats);
              return w.counted(stats.writes == 0);
            }),
      fact("fw_channel_peer_name", [](W& w) { return *fw_channel_peer_name(w.c_channel); }),
      fact("fw_channel_share",
           [](W& w) {
             fw_channel* const shared = fw_channel_share(w.c_channel);
             fw_channel_release(shared);
             return shared != nullptr;
           }),
      fact("fw_channel_same", [](W& w) { return fw_channel_same(w.c_channel, w.c_channel); }),
      fact("fw_channel_max_message_bytes",
           [](W& w) { return fw_channel_max_message_bytes(w.c_channel); }),
      fact("fw_channel_maps", [](W& w) { return fw_channel_maps(w.c_channel); }),
      fact("fw_channel_state", [](W& w) { return fw_channel_state(w.c_channel); }),
      peer("fw_channel_take",
           [](W& w) {
             int taken = 7;
             const Status status = status_of(fw_channel_take(
                 w.c_channel, limit_ns(), [](void*, const fw_notification*) {}, nullptr, &taken));
             if (status.ok() == (taken == 7)) return Status(StatusCode::kInternal, "of *taken");
             // Nothing came in time: that is no error.
             if (status.ok())
               return Status(taken == 0 ? StatusCode::kDeadlineExceeded : StatusCode::kOk, "");
             return status;
           },
           {{"none", kLate}}),
      own("fw_channel_descriptor",
          [](W& w) {
            int descriptor = -1;
            return status_of(fw_channel_descriptor(w.c_channel, &descriptor));
          }),
      own("fw_channel_arm",
          [](W& w) {
            int armed = 7;
            return status_of(fw_channel_arm(w.c_channel, &armed));
          }),
      fact("fw_channel_disarm", [](W& w) { fw_channel_disarm(w.c_channel); }),
      peer("fw_channel_notify",
           [](W& w) { return status_of(fw_channel_notify(w.c_channel, 1, 0, nullptr)); },
           {{"stopped", kReturns}}),
      peer("fw_channel_publish",
           [](W& w) {
             const fw_region exported{w.exported};
             return status_of(fw_channel_publish(w.c_channel, "c", &exported, nullptr));
           },
           {{"stopped", kReturns}}),
      peer("fw_channel_lookup",
           [](W& w) {
             Output<fw_remote> remote;
             return remote.check(fw_channel_lookup(w.c_channel, "outbox", limit_ns(), remote),
                                 fw_remote_release);
           }),
      peer("fw_channel_flush",
           [](W& w) {
             (void)w.channel.write({bytes, 16}, w.inbox);  // else there is nothing to wait for
             return w.answer("fw_channel_flush").follow([&](fw_completion** end) {
               return fw_channel_flush(w.c_channel, end);
             });
           },
           {{"stopped", kOneSided}}),
      own("fw_channel_serve",
          [](W& w) {
            Answer& answer = w.answer("fw_channel_serve");
            const Status served = status_of(fw_channel_serve(
                w.c_served, [](void*, const fw_notification*) {},
                [](void* context, int, const fw_status*) { Answer::take_end(context); }, &answer));
            // on_end is not called after fw_channel_close(), so it may come or not.
            return answer.at_most_once(served);
          }),
      own("fw_channel_on_notification",
          [](W& w) {
            return status_of(fw_channel_on_notification(
                w.c_served, [](void*, const fw_notification*) {}, nullptr, nullptr, limit_ns()));
          }),
      own("fw_channel_on_end",
          [](W& w) {
            return status_of(fw_channel_on_end(
                w.c_served, [](void*, int, const fw_status*) {}, nullptr, nullptr));
          }),
      peer("fw_channel_send",
           [](W& w) { return status_of(fw_channel_send(w.c_engine, bytes, 16, 1, 0, nullptr)); },
           {{"stopped", kReturns}}),
      peer("fw_channel_lend",
           [](W& w) {
             Answer& answer = w.answer("fw_channel_lend");
             const Status lent =
                 status_of(fw_channel_lend(w.c_engine, bytes, 16, w.exported.data(), 16,
                                           Answer::take_end, &answer, 1, 0, nullptr));
             return lent.ok() ? lent : answer.refused(lent);
           },
           {{"stopped", kReturns}}),
      ending("fw_channel_close",
             [](W& w) {
               // Those that serve are in their callbacks' hands until then.
               fw_status_free(fw_channel_close(w.c_served, limit_ns()));
               fw_status_free(fw_channel_close(w.c_fresh, limit_ns()));
               return status_of(fw_channel_close(w.c_engine, limit_ns()));
             }),
      fact("fw_channel_release",
           [](W& w) {
             for (fw_channel** handle : {&w.c_served, &w.c_fresh, &w.c_engine}) {
               fw_channel_release(std::exchange(*handle, nullptr));
             }
           }),
      peer("fw_channel_allocate",
           [](W& w) {
             Output<fw_region> region;
             return region.check(fw_channel_allocate(w.c_channel, 64, nullptr, region),
                                 fw_region_release);
           },
           {{"stopped", kReturns}}),
      peer("fw_channel_open",
           [](W& w) {
             Output<fw_remote> target;
             const auto wire = w.inbox.descriptor().to_bytes();
             return target.check(
                 fw_channel_open(w.c_channel, wire.data(), wire.size(), limit_ns(), target),
                 fw_remote_release);
           }),
      own("fw_channel_serve_tensors",
          [](W& w) {
            const fw_tensor_handlers all = matrix_handlers(
                [](void*, const fw_landing* landing) { fw_landed_release(landing->landed); });
            return status_of(fw_channel_serve_tensors(w.c_fresh, &all, nullptr));
          }),
      peer("fw_channel_push",
           [](W& w) {
             Answer& answer = w.answer("fw_channel_push");
             int pushed = 7;
             const Status status =
                 status_of(fw_channel_push(w.c_engine, "edge", 4, "d", 1, bytes, 16, 0,
                                           Answer::take_status, &answer, &pushed));
             if (!status.ok() && pushed != 7) return Status(StatusCode::kInternal, "of *pushed");
             if (!status.ok() || pushed == 0) return answer.refused(status);
             return answer.wait();
           },
           // Without an error it has pushed nothing: the slots are gone with the peer.
           {{"killed", {"returns", "PeerDead"}}, {"stopped", kReturns}, {"closed", kStillRead}}),
      fact("fw_channel_has_slot",
           [](W& w) { return w.in_child(fw_channel_has_slot(w.c_engine, "edge", 4, 16) == 0); }),
      fact("fw_channel_want_slots", [](W& w) { fw_channel_want_slots(w.c_engine, "edge", 4, 16); }),
      fact("fw_slots",
           [](W&) {
             fw_slot_stats stats = {};
             stats.struct_size = sizeof(stats);
             fw_slots(&stats);
             return stats.slots;
           }),
      fact("fw_landed_release", [](W& w) { fw_landed_release(w.c_landed.exchange(nullptr)); }),
  };
}

std::vector<Row> memory_rows() {
  return {
      fact("fw_remote_bytes", [](W& w) { return fw_remote_bytes(w.c_view); }),
      fact("fw_remote_ready", [](W& w) { return fw_remote_ready(w.c_view); }),
      fact("fw_remote_maps", [](W& w) { return fw_remote_maps(w.c_view); }),
      fact("fw_remote_gpu", [](W& w) { return fw_remote_gpu(w.c_view); }),
      fact("fw_remote_access", [](W& w) { return fw_remote_access(w.c_view); }),
      fact("fw_remote_describe", [](W& w) { return fw_remote_describe(w.c_target, nullptr, 0); }),
      fact("fw_remote_is_of",
           [](W& w) { return w.in_child(fw_remote_is_of(w.c_target, w.c_channel) == 1); }),
      peer("fw_remote_read",
           [](W& w) {
             static char out[kMatrixBytes];

             return w.answer("fw_remote_read").follow([&](fw_completion** end) {
               return fw_remote_read(w.c_view, 0, out, kMatrixBytes, 0, end);
             });
           },
           {{"stopped", kOneSided}, {"closed", kStillRead}}),
      peer("fw_remote_write",
           [](W& w) {
             return w.answer("fw_remote_write").follow([&](fw_completion** end) {
               return fw_remote_write(w.c_target, 0, bytes, 16, 0, end);
             });
           },
           {{"stopped", kReturns}}),
      fact("fw_remote_description", [](W& w) { return *fw_remote_description(w.c_target); }),
      own("fw_remote_map",
          [](W& w) {
            const void* data = bytes;
            std::uint64_t size = 7;
            const Status mapped = status_of(fw_remote_map(w.c_view, limit_ns(), &data, &size));
            const bool untouched = data == bytes && size == 7;
            return mapped.ok() == untouched ? Status(StatusCode::kInternal, "output") : mapped;
          },
          {{"none", kMapped},
           {"killed", kMapped},
           {"stopped", kMapped},
           {"closed", kMapped},
           {"shut", kMapped},
           {"parent", kMapped}}),
      own("fw_remote_view",
          [](W& w) {
            fw_slice slice = {};
            fw_status* const status = fw_remote_view(w.c_view, 0, 16, limit_ns(), &slice);
            const bool written = slice.lease != nullptr;
            fw_lease_release(slice.lease);
            return written == (status == nullptr) ? status_of(status)
                                                  : Status(StatusCode::kInternal, "output");
          },
          {{"none", kMapped},
           {"killed", kMapped},
           {"stopped", kMapped},
           {"closed", kMapped},
           {"shut", kMapped},
           {"parent", kMapped}}),
      fact("fw_lease_make",
           [](W& w) {
             Answer& answer = w.answer("fw_lease_make");
             Output<fw_lease> lease;
             const Status made =
                 lease.check(fw_lease_make(Answer::take_end, &answer, lease), fw_lease_release);
             return made.ok() ? answer.wait() : made;
           }),
      fact("fw_remote_release",
           [](W& w) {
             fw_remote_release(std::exchange(w.c_view, nullptr));
             fw_remote_release(std::exchange(w.c_target, nullptr));
           }),
      fact("fw_region_gpu", [](W& w) { return fw_region_gpu(w.c_region); }),
      fact("fw_region_access", [](W& w) { return fw_region_access(w.c_region); }),
      fact("fw_region_bytes", [](W& w) { return fw_region_bytes(w.c_region); }),
      ending("fw_region_close",
             [](W& w) { return status_of(fw_region_close(w.c_region, limit_ns())); }),
      fact("fw_region_data", [](W& w) { return *static_cast<char*>(fw_region_data(w.c_region)); }),
      fact("fw_region_describe",
           [](W& w) {
             char wire[1024];
             return fw_region_describe(w.c_region, wire, sizeof(wire));
           }),
      fact("fw_region_release",
           [](W& w) { fw_region_release(std::exchange(w.c_region, nullptr)); }),
      peer("fw_remote_write_notify",
           [](W& w) {
             return w.answer("fw_remote_write_notify").follow([&](fw_completion** end) {
               return fw_remote_write_notify(w.c_target, 0, bytes, 8, bytes, 16, 1, 0, end);
             });
           },
           {{"stopped", kReturns}}),
  };
}

std::vector<Row> completion_rows() {
  return {
      fact("fw_completion_done",
           [](W& w) {
             const fw_completion pending{w.pending};
             return w.in_child(fw_completion_done(&pending) == 1);
           }),
      fact("fw_completion_settled",
           [](W& w) {
             const fw_completion pending{w.pending};
             return w.in_child(fw_completion_settled(&pending) == 1);
           }),
      count("fw_completion_wait",
            [](W& w) {
              const fw_completion pending{w.pending};
              return status_of(fw_completion_wait(&pending, limit_ns()));
            },
            {{"none", kLate},
             {"killed", kLate},
             {"stopped", kLate},
             {"closed", kLate},
             {"shut", kLate},
             {"parent", kLate}}),
      fact("fw_completion_cancel",
           [](W& w) {
             fw_completion cancelled{w.cancelled};
             fw_completion_cancel(&cancelled);
           }),
      fact("fw_completion_on_settled",
           [](W& w) {
             Answer& answer = w.answer("fw_completion_on_settled");
             fw_status_free(fw_completion_on_settled(nullptr, Answer::take_status, &answer));
             return answer.wait();
           }),
      fact("fw_completion_on_done",
           [](W& w) {
             Answer& answer = w.answer("fw_completion_on_done");
             fw_status_free(fw_completion_on_done(nullptr, Answer::take_status, &answer));
             return answer.wait();
           }),
      fact("fw_completion_free", [](W&) { fw_completion_free(nullptr); }),
  };
}

}  // namespace

std::vector<Row> matrix_c_rows() {
  std::vector<Row> rows;
  for (const auto& part : {device_rows(), channel_rows(), memory_rows(), completion_rows()}) {
    rows.insert(rows.end(), part.begin(), part.end());
  }
  return rows;
}

}  // namespace farwrite::fault
