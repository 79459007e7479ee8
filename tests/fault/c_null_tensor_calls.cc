// Of c_tensor.h.
#include "fault/c_null_calls.h"

namespace farwrite::fault {
namespace {

constexpr fw_tensor_spec kNoSpec = {};

fw_status* receive_null(fw_receiver* receiver) {
  return fw_receiver_receive(receiver, 0, Unwritten<fw_tensor>());
}

fw_status* send_null(fw_sender* sender, const fw_tensor_spec* spec, const void* data) {
  return fw_sender_send(sender, spec, data, 1, 0, Unwritten<fw_completion>());
}

fw_status* open_null_sender(fw_device* device, fw_channel* channel, const char* name) {
  return fw_sender_open(device, channel, name, 0, Unwritten<fw_sender>());
}

template <typename Struct>
Struct sized() {
  Struct empty = {};
  empty.struct_size = sizeof(empty);
  return empty;
}

}  // namespace

NullCalls null_tensor_calls() {
  auto* const device = unused<fw_device>();
  auto* const channel = unused<fw_channel>();
  auto* const receiver = unused<fw_receiver>();
  auto* const sender = unused<fw_sender>();
  return {
      .refused =
          {
              {"fw_receiver_open",
               [] { return fw_receiver_open(nullptr, "e", nullptr, Unwritten<fw_receiver>()); }},
              {"fw_receiver_open",
               [=] {
                 return fw_receiver_open(channel, nullptr, nullptr, Unwritten<fw_receiver>());
               }},
              {"fw_receiver_open",
               [=] { return fw_receiver_open(channel, "e", nullptr, nullptr); }},
              {"fw_receiver_receive", [] { return receive_null(nullptr); }},
              {"fw_receiver_receive", [=] { return fw_receiver_receive(receiver, 0, nullptr); }},
              {"fw_receiver_wait", [] { return fw_receiver_wait(nullptr, 0); }},
              {"fw_receiver_reset", [] { return fw_receiver_reset(nullptr); }},
              {"fw_sender_open", [=] { return open_null_sender(nullptr, channel, "e"); }},
              {"fw_sender_open", [=] { return open_null_sender(device, nullptr, "e"); }},
              {"fw_sender_open", [=] { return open_null_sender(device, channel, nullptr); }},
              {"fw_sender_open", [=] { return fw_sender_open(device, channel, "e", 0, nullptr); }},
              {"fw_sender_send", [] { return send_null(nullptr, &kNoSpec, "d"); }},
              {"fw_sender_send", [=] { return send_null(sender, nullptr, "d"); }},
              {"fw_sender_send", [=] { return send_null(sender, &kNoSpec, nullptr); }},
              {"fw_sender_send",
               [=] { return fw_sender_send(sender, &kNoSpec, "d", 1, 0, nullptr); }},
          },
      .nothing =
          {
              {"fw_receiver_stats", [=] { return fw_receiver_stats(receiver, nullptr), true; }},
              {"fw_receiver_stats",
               [] {
                 auto stats = sized<fw_tensor_stats>();
                 fw_receiver_stats(nullptr, &stats);
                 return stats.requests == 0;
               }},
              {"fw_receiver_close", [] { return fw_receiver_close(nullptr, 0) == nullptr; }},
              {"fw_tensor_get", [] { return fw_tensor_get(unused<fw_tensor>(), nullptr), true; }},
              {"fw_tensor_get",
               [] {
                 auto info = sized<fw_tensor_info>();
                 fw_tensor_get(nullptr, &info);
                 return info.data == nullptr;
               }},
              {"fw_tensor_release", [] { return fw_tensor_release(nullptr), true; }},
              {"fw_sender_announced",
               [] {
                 fw_tensor_spec spec = {};
                 return fw_sender_announced(nullptr, &spec) == FW_EDGE_UNSET &&
                        spec.dtype == nullptr;
               }},
              {"fw_sender_announced",
               [=] { return fw_sender_announced(sender, nullptr) == FW_EDGE_UNSET; }},
              {"fw_sender_stats", [=] { return fw_sender_stats(sender, nullptr), true; }},
              {"fw_sender_stats",
               [] {
                 auto stats = sized<fw_tensor_stats>();
                 fw_sender_stats(nullptr, &stats);
                 return stats.requests == 0;
               }},
              {"fw_sender_close", [] { return fw_sender_close(nullptr, 0) == nullptr; }},
              {"fw_sender_abandon", [] { return fw_sender_abandon(nullptr) == nullptr; }},
              {"fw_sender_release", [] { return fw_sender_release(nullptr), true; }},
              {"fw_receiver_release", [] { return fw_receiver_release(nullptr), true; }},
          },
  };
}

}  // namespace farwrite::fault
