// finish(): closes what a handle of the C ABI is for, and releases the handle.
#pragma once

#include <cstdint>

#include "farwrite/c_api.h"

// As global as the handles, so that a call finds them.
inline fw_status* finish(fw_device* device, std::uint64_t timeout_ns) {
  fw_status* const status = fw_device_close(device, timeout_ns);
  fw_device_release(device);
  return status;
}
inline fw_status* finish(fw_channel* channel, std::uint64_t timeout_ns) {
  fw_status* const status = fw_channel_close(channel, timeout_ns);
  fw_channel_release(channel);
  return status;
}
inline fw_status* finish(fw_receiver* receiver, std::uint64_t timeout_ns) {
  fw_status* const status = fw_receiver_close(receiver, timeout_ns);
  fw_receiver_release(receiver);
  return status;
}
inline fw_status* finish(fw_sender* sender, std::uint64_t timeout_ns) {
  fw_status* const status = fw_sender_close(sender, timeout_ns);
  fw_sender_release(sender);
  return status;
}
inline fw_status* finish(fw_box_client* client, std::uint64_t timeout_ns) {
  fw_status* const status = fw_box_client_close(client, timeout_ns);
  fw_box_client_release(client);
  return status;
}
inline fw_status* finish(fw_box_server* server, std::uint64_t timeout_ns, int last_snapshot = 0) {
  fw_status* const status = fw_box_server_close(server, timeout_ns, last_snapshot);
  fw_box_server_release(server);
  return status;
}
inline fw_status* finish(fw_segment* segment) {
  fw_status* const status = fw_segment_detach(segment);
  fw_segment_release(segment);
  return status;
}
