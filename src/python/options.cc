#include "farwrite/options.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "python/errors.h"
#include "python/module.h"
#include "python/waiting.h"

namespace farwrite::python {
namespace {

namespace nb = nanobind;

void set_listen(DeviceOptions& options, const std::string& endpoint) {
  options.listen = value_or_raise(Endpoint::parse(endpoint));
}

void set_fabrics(DeviceOptions& options, const std::vector<std::string>& names) {
  std::vector<FabricKind> fabrics;
  for (const std::string& name : names) fabrics.push_back(value_or_raise(parse_fabric(name)));
  options.fabrics = std::move(fabrics);
}

void set_huge_pages(DeviceOptions& options, const std::string& name) {
  if (name == "off") {
    options.huge_pages = HugePages::kOff;
  } else if (name == "transparent") {
    options.huge_pages = HugePages::kTransparent;
  } else if (name == "explicit") {
    options.huge_pages = HugePages::kExplicit;
  } else {
    raise(Status(StatusCode::kInvalidArgument,
                 "huge_pages '" + name + "' is unknown; use 'off', 'transparent' or 'explicit'"));
  }
}

double seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

std::vector<std::string> fabrics(const DeviceOptions& options) {
  std::vector<std::string> names;
  for (const FabricKind kind : options.fabrics) names.emplace_back(to_string(kind));
  return names;
}

std::string huge_pages(const DeviceOptions& options) {
  switch (options.huge_pages) {
    case HugePages::kOff:
      return "off";
    case HugePages::kTransparent:
      return "transparent";
    case HugePages::kExplicit:
      return "explicit";
  }
  return {};
}

// options.verbs.name as the property verbs_name.
template <auto Member>
void bind_verbs(nb::class_<DeviceOptions>& options, const char* name) {
  using Value = std::remove_cvref_t<decltype(std::declval<VerbsOptions&>().*Member)>;
  options.def_prop_rw(
      name, [](const DeviceOptions& self) { return self.verbs.*Member; },
      [](DeviceOptions& self, Value value) { self.verbs.*Member = std::move(value); });
}

}  // namespace

void bind_options(nb::module_& module) {
  module.attr("MAX_POLLERS") = kMaxPollers;
  module.attr("MAX_LANES") = kMaxLanes;
  module.attr("MIN_MEMORY_LIMIT") = kMinMemoryLimit;
  nb::class_<DeviceOptions> options(module, "DeviceOptions");
  options.def(nb::init<>())
      .def("set_listen", &set_listen, nb::arg("endpoint"))
      .def("set_fabrics", &set_fabrics, nb::arg("names"))
      .def("set_huge_pages", &set_huge_pages, nb::arg("name"))
      .def(
          "set_token",
          [](DeviceOptions& options, const std::optional<nb::bytes>& token) {
            options.token = token.has_value() ? Token(std::string(token->c_str(), token->size()))
                                              : Token::none();
          },
          nb::arg("token").none())
      .def(
          "set_spin",
          [](DeviceOptions& options, double seconds) {
            options.spin = to_timeout(seconds, "spin");
          },
          nb::arg("seconds"))
      .def(
          "set_detection_time",
          [](DeviceOptions& options, double seconds) {
            options.detection_time = to_timeout(seconds, "detection_time");
          },
          nb::arg("seconds"))
      .def(
          "set_handshake_timeout",
          [](DeviceOptions& options, double seconds) {
            options.handshake_timeout = to_timeout(seconds, "handshake_timeout");
          },
          nb::arg("seconds"))
      .def_prop_ro("listen",
                   [](const DeviceOptions& options) { return options.listen.to_string(); })
      .def_prop_ro("fabrics", &fabrics)
      .def_prop_ro("huge_pages", &huge_pages)
      .def_prop_ro("spin", [](const DeviceOptions& options) { return seconds(options.spin); })
      .def_prop_ro("detection_time",
                   [](const DeviceOptions& options) { return seconds(options.detection_time); })
      .def_prop_ro("handshake_timeout",
                   [](const DeviceOptions& options) { return seconds(options.handshake_timeout); })
      .def(
          "set_host_timeout",
          [](DeviceOptions& options, double seconds) {
            options.host_timeout = to_timeout(seconds, "host_timeout");
          },
          nb::arg("seconds"))
      .def_prop_ro("host_timeout",
                   [](const DeviceOptions& options) { return seconds(options.host_timeout); })
      .def_rw("name", &DeviceOptions::name)
      .def_rw("encrypt", &DeviceOptions::encrypt)
      .def_rw("data_port", &DeviceOptions::data_port)
      .def_rw("pollers", &DeviceOptions::pollers)
      .def_rw("lanes", &DeviceOptions::lanes)
      .def_rw("send_limit", &DeviceOptions::send_limit)
      .def_rw("send_limit_per_peer", &DeviceOptions::send_limit_per_peer)
      .def_rw("receive_limit", &DeviceOptions::receive_limit)
      .def_rw("receive_limit_per_peer", &DeviceOptions::receive_limit_per_peer)
      .def_rw("segment_bytes", &DeviceOptions::segment_bytes)
      .def_rw("receive_segment_bytes", &DeviceOptions::receive_segment_bytes)
      .def_rw("prefault", &DeviceOptions::prefault)
      .def_rw("numa_node", &DeviceOptions::numa_node);
  bind_verbs<&VerbsOptions::device>(options, "verbs_device");
  bind_verbs<&VerbsOptions::port>(options, "verbs_port");
  bind_verbs<&VerbsOptions::gid_index>(options, "verbs_gid_index");
  bind_verbs<&VerbsOptions::send_queue_depth>(options, "verbs_send_queue_depth");
  bind_verbs<&VerbsOptions::receive_credits>(options, "verbs_receive_credits");
  bind_verbs<&VerbsOptions::chunk_bytes>(options, "verbs_chunk_bytes");
  bind_verbs<&VerbsOptions::signal_every>(options, "verbs_signal_every");
  bind_verbs<&VerbsOptions::inline_bytes>(options, "verbs_inline_bytes");
  bind_verbs<&VerbsOptions::retry_count>(options, "verbs_retry_count");
  bind_verbs<&VerbsOptions::rnr_retry_count>(options, "verbs_rnr_retry_count");
  bind_verbs<&VerbsOptions::relaxed_ordering>(options, "verbs_relaxed_ordering");
  bind_verbs<&VerbsOptions::use_immediate>(options, "verbs_use_immediate");
}

}  // namespace farwrite::python
