/// @file
/// The options of a device, as the C ABI takes them.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "farwrite/c_device.h"
#include "farwrite/internal/bridge.h"
#include "farwrite/internal/namespace.h"
#include "farwrite/options.h"
#include "farwrite/status.h"

FARWRITE_BEGIN
namespace internal {

/// @private The options of a device with the texts that they refer to. Not copyable: `get()` points
/// into it, and into the options that it was made from.
class COptions {
 public:
  explicit COptions(const DeviceOptions& options);
  COptions(const COptions&) = delete;
  COptions& operator=(const COptions&) = delete;

  /// kInvalidArgument for a text or a time that the C ABI cannot take.
  const Status& status() const { return status_; }
  /// Valid as long as this object and the options.
  const fw_device_options* get() const { return &known_; }

 private:
  void take_verbs(const VerbsOptions& options);
  void check(std::string_view what, std::string_view text) {
    if (status_.ok()) status_ = refuse_zero("open a device", what, text);
  }
  void check(std::string_view what, std::chrono::nanoseconds time) {
    if (status_.ok()) status_ = refuse_negative("open a device", what, time);
  }

  Status status_;
  std::string listen_, fabrics_, port_range_;
  fw_verbs_options verbs_ = {};
  fw_device_options known_ = {};
};

inline COptions::COptions(const DeviceOptions& options) : listen_(options.listen.to_string()) {
  if (fw_abi_version() != FW_ABI_VERSION) {
    status_ =
        Status::error(StatusCode::kVersionMismatch, {"open a device"},
                      "the program needs C ABI " + std::to_string(FW_ABI_VERSION) +
                          " of Farwrite, and has loaded the library of Farwrite " + fw_version() +
                          ", which has C ABI " + std::to_string(fw_abi_version()),
                      "compile the program with that Farwrite's headers, whose flags this"
                      " prints: farwrite config --cflags --libs");
  }
  check("the name", options.name);
  check("the host", options.listen.host);
  check("the adapter's name", options.verbs.device);
  for (const FabricKind fabric : options.fabrics) {
    if (!fabrics_.empty()) fabrics_ += ',';
    fabrics_ += to_string(fabric);
  }
  if (options.port_range != PortRange()) {
    port_range_ =
        std::to_string(options.port_range.first) + "-" + std::to_string(options.port_range.last);
  }
  check("spin", options.spin);
  check("memory_idle_time", options.memory_idle_time);
  check("detection_time", options.detection_time);
  check("handshake_timeout", options.handshake_timeout);
  check("host_timeout", options.host_timeout);
  const bool secret = options.token.kind() == Token::Kind::kSecret;
  if (status_.ok() && secret && options.token.secret().empty()) {  // no proof at all, in the C ABI
    status_ = Status::error(StatusCode::kInvalidArgument, {"open a device"}, "the token is empty",
                            "set a secret of at least one byte, or use Token::none()");
  }
  known_.struct_size = sizeof(known_);
  known_.exact = 1;
  known_.listen = listen_.c_str();
  known_.fabrics = fabrics_.c_str();
  known_.port_range = port_range_.empty() ? nullptr : port_range_.c_str();
  known_.name = options.name.c_str();
  switch (options.token.kind()) {
    case Token::Kind::kCookie:
      break;
    case Token::Kind::kSecret:
      known_.token = options.token.secret().data();
      known_.token_bytes = options.token.secret().size();
      break;
    case Token::Kind::kNone:
      known_.token = "";
      break;
    case Token::Kind::kCookieElseNone:
      known_.open_elsewhere = 1;
      break;
  }
  known_.send_limit = options.send_limit;
  known_.send_limit_per_peer = options.send_limit_per_peer;
  known_.receive_limit = options.receive_limit;
  known_.receive_limit_per_peer = options.receive_limit_per_peer;
  known_.segment_bytes = options.segment_bytes;
  known_.receive_segment_bytes = options.receive_segment_bytes;
  known_.spin_ns = to_ns(options.spin);
  known_.memory_idle_ns = to_ns(options.memory_idle_time);
  known_.detection_ns = to_ns(options.detection_time);
  known_.handshake_ns = to_ns(options.handshake_timeout);
  known_.host_ns = to_ns(options.host_timeout);
  known_.pollers = options.pollers;
  known_.lanes = options.lanes;
  known_.data_port = options.tcp.data_port;
  known_.encrypt = options.encrypt ? 1 : 0;
  known_.huge_pages = static_cast<std::uint32_t>(options.huge_pages);
  known_.prefault = options.prefault ? 1 : 0;
  known_.numa_node = options.numa_node;
  take_verbs(options.verbs);
  known_.verbs_fields = &verbs_;
}

inline void COptions::take_verbs(const VerbsOptions& options) {
  verbs_.struct_size = sizeof(verbs_);
  verbs_.device = options.device.c_str();
  verbs_.chunk_bytes = options.chunk_bytes;
  verbs_.port = options.port;
  verbs_.gid_index = options.gid_index;
  verbs_.send_queue_depth = options.send_queue_depth;
  verbs_.receive_credits = options.receive_credits;
  verbs_.signal_every = options.signal_every;
  verbs_.inline_bytes = options.inline_bytes;
  verbs_.retry_count = options.retry_count;
  verbs_.rnr_retry_count = options.rnr_retry_count;
  verbs_.relaxed_ordering = options.relaxed_ordering.has_value() ? *options.relaxed_ordering : -1;
  verbs_.use_immediate = options.use_immediate ? 1 : 0;
  verbs_.assume_in_order = options.assume_data_in_order ? 1 : 0;
}

}  // namespace internal
FARWRITE_END
