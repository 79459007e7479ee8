// The C ABI: tables of options and counters, and what this machine has.
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "c_api/handles.h"
#include "c_api/option_json.h"
#include "core/counter_table.h"
#include "core/log.h"
#include "core/option_table.h"
#include "core/tls_library.h"
#include "core/token_file.h"
#include "device/fabrics.h"
#include "fabric/topology.h"
#include "memory/copy.h"
#include "tensorflow/stats/counter_table.h"

namespace {

using farwrite::Status;
using farwrite::c_api::JsonText;
using farwrite::c_api::refuse_null;
using farwrite::c_api::to_c;
using farwrite::core::Option;
using farwrite::fabric::PciDevice;

fw_status* refuse_no_handler(fw_text_handler on_text) {
  return refuse_null("describe Farwrite", {{"on_text", on_text != nullptr}});
}

void append_places(JsonText& json, unsigned places) {
  json.begin_list();
  for (const auto& [place, name] : {std::pair{farwrite::core::kInDevice, "device"},
                                    {farwrite::core::kInPlugin, "plug-in"},
                                    {farwrite::core::kInGrpc, "gRPC"},
                                    {farwrite::core::kInCommands, "command line"},
                                    {farwrite::core::kInTests, "tests"}}) {
    if ((places & place) != 0) json.text(name);
  }
  json.end_list();
}

void append_options(JsonText& json, std::string_view table, std::span<const Option> options) {
  farwrite::DeviceOptions defaults;
  json.key(table).begin_list();
  for (const Option& option : options) {
    json.begin_object();
    json.key("name").text(option.name);
    json.key("variable").text(option.variable);
    json.key("places");
    append_places(json, option.places);
    json.key("kind").text(farwrite::core::shown(option.kind));
    json.key("default");
    if (option.default_text.empty()) {
      farwrite::c_api::append_value(json, option.field(defaults));
    } else {
      json.text(option.default_text);
    }
    json.key("meaning").text(option.help);
    json.key("choices").begin_list();
    for (const std::string_view word : option.choices) json.text(word);
    json.end_list().end_object();
  }
  json.end_list();
}

template <typename Stats>
void append_counters(JsonText& json) {
  const farwrite::core::CounterTable<Stats>& table = farwrite::core::counters<Stats>();
  json.key(table.name).begin_list();
  for (const farwrite::core::CounterRow<Stats>& row : table.rows) {
    json.begin_object();
    json.key("name").text(row.name);
    json.key("meaning").text(row.help);
    json.key("metric").text(
        row.metric.empty() ? std::string() : std::string(table.prefix) + std::string(row.metric));
    json.key("labels").begin_object();
    if (!row.operation.empty()) json.key("operation").text(row.operation);
    if (!row.direction.empty()) json.key("direction").text(row.direction);
    json.end_object().end_object();
  }
  json.end_list();
}

void append_plugin_counter(JsonText& json, std::string_view name, std::string_view help,
                           bool grows) {
  json.begin_object();
  json.key("name").text(name);
  json.key("meaning").text(help);
  json.key("only_grows").boolean(grows);
  json.end_object();
}

void append_known(JsonText& json, std::string_view key, const std::string& text) {
  json.key(key);
  text.empty() ? json.null() : json.text(text);
}

// Begins the object of a device, which the caller ends.
void begin_device(JsonText& json, const PciDevice& device) {
  json.begin_object();
  json.key("name").text(device.name);
  append_known(json, "pci_address", device.address);
  append_known(json, "host_bridge", device.host_bridge);
  json.key("numa_node");
  device.numa_node < 0 ? json.null() : json.whole(device.numa_node);
}

Status check_variable(std::string_view variable) {
  if (variable == "FARWRITE_LOG") return farwrite::core::check_log_variable();
  if (variable == "FARWRITE_COPY_KERNEL") return farwrite::memory::check_copy_kernel_variable();
  if (variable == "FARWRITE_TOKEN_FILE") return farwrite::core::check_token_file_variable();
  return farwrite::core::check_variable(variable);
}

}  // namespace

fw_status* fw_about_options(fw_text_handler on_text, void* context) {
  if (fw_status* const refused = refuse_no_handler(on_text)) return refused;
  JsonText json;
  json.begin_object();
  append_options(json, "device", farwrite::core::device_options());
  append_options(json, "plugin", farwrite::core::plugin_options());
  append_options(json, "grpc", farwrite::core::grpc_options());
  json.end_object();
  return json.hand_to(on_text, context);
}

fw_status* fw_about_counters(fw_text_handler on_text, void* context) {
  if (fw_status* const refused = refuse_no_handler(on_text)) return refused;
  JsonText json;
  json.begin_object();
  json.key("tables").begin_object();
  append_counters<farwrite::MemoryStats>(json);
  append_counters<farwrite::AdapterStats>(json);
  append_counters<farwrite::GpuStats>(json);
  append_counters<farwrite::DeviceStats>(json);
  append_counters<farwrite::ChannelStats>(json);
  append_counters<farwrite::TensorStats>(json);
  append_counters<farwrite::box::ClientStats>(json);
  append_counters<farwrite::box::ServerStats>(json);
  json.end_object();
  json.key("plugin").begin_list();
#define FARWRITE_PLUGIN_ROW(name, help) append_plugin_counter(json, #name, help, true);
  FARWRITE_PLUGIN_COUNTERS(FARWRITE_PLUGIN_ROW)
#undef FARWRITE_PLUGIN_ROW
#define FARWRITE_PLUGIN_ROW(name, help) append_plugin_counter(json, #name, help, false);
  FARWRITE_PLUGIN_GAUGES(FARWRITE_PLUGIN_ROW)
#undef FARWRITE_PLUGIN_ROW
  json.end_list().end_object();
  return json.hand_to(on_text, context);
}

fw_status* fw_about_fabrics(const fw_device_options* options, fw_text_handler on_text,
                            void* context) {
  if (fw_status* const refused = refuse_no_handler(on_text)) return refused;
  const auto chosen = farwrite::c_api::to_options(options);
  if (!chosen.ok()) return to_c(chosen.status());
  JsonText json;
  json.begin_list();
  for (const auto& report : farwrite::fabric::describe_fabrics(chosen.value())) {
    json.begin_object();
    json.key("name").text(to_string(report.kind));
    json.key("usable").boolean(report.usable);
    json.key("reason").text(report.reason);
    json.key("more").begin_list();
    for (const std::string& line : report.more) json.text(line);
    json.end_list().end_object();
  }
  json.end_list();
  return json.hand_to(on_text, context);
}

fw_status* fw_about_topology(const char* sysfs, fw_text_handler on_text, void* context) {
  if (fw_status* const refused = refuse_null(
          "describe Farwrite", {{"sysfs", sysfs != nullptr}, {"on_text", on_text != nullptr}})) {
    return refused;
  }
  const farwrite::fabric::Topology machine(sysfs);
  const std::vector<PciDevice> adapters = machine.adapters();
  JsonText json;
  json.begin_object();
  json.key("adapters").begin_list();
  for (const PciDevice& adapter : adapters) {
    begin_device(json, adapter);
    json.end_object();
  }
  json.end_list();
  json.key("gpus").begin_list();
  for (const PciDevice& gpu : machine.gpus()) {
    begin_device(json, gpu);
    json.key("direct_adapters").begin_list();
    for (const PciDevice& adapter : adapters) {
      if (farwrite::fabric::reaches_directly(adapter, gpu)) json.text(adapter.name);
    }
    json.end_list().end_object();
  }
  json.end_list().end_object();
  return json.hand_to(on_text, context);
}

fw_status* fw_check_encryption(void) { return to_c(farwrite::core::TlsLibrary::open().status()); }

fw_status* fw_check_variable(const char* variable) {
  if (fw_status* const refused =
          refuse_null("check a variable", {{"variable", variable != nullptr}})) {
    return refused;
  }
  return to_c(check_variable(variable));
}
