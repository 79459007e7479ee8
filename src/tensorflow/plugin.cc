// What Python calls: the plug-in's own small C interface.
#include <cstdint>
#include <string>

#include "base/abi.h"
#include "base/options.h"
#include "edges/edges_json.h"
#include "edges/graph_analysis.h"
#include "farwrite/c_api.h"
#include "memory/allocation_sites.h"
#include "memory/arena_allocator.h"
#include "memory/slice_ownership.h"
#include "memory/staging.h"
#include "server/runtime.h"
#include "stats/stats.h"
#include "tensor/device_copy.h"
#include "tensor/fetch.h"
#include "tensor/receive.h"
#include "tensorflow/core/platform/logging.h"

namespace farwrite::plugin {
namespace {

const absl::Status loaded = [] {
  absl::Status status = check_abi();
  if (status.ok()) status = options_status();
  if (status.ok()) status = make_slices_respect_owners();
  if (status.ok()) {
    ArenaAllocator::install();
  } else {
    LOG(ERROR) << status.message();
  }
  return status;
}();

std::string memory_json() {
  fw_memory_stats memory{};
  memory.struct_size = sizeof(memory);
  if (Runtime* const runtime = Runtime::current())
    fw_device_memory(runtime->peers().device(), &memory);
  return "{\"limit\":" + std::to_string(memory.limit) +
         ",\"reserved\":" + std::to_string(memory.reserved) +
         ",\"used\":" + std::to_string(memory.used) +
         ",\"peak_used\":" + std::to_string(memory.peak_used) +
         ",\"segments\":" + std::to_string(memory.segments) +
         ",\"held_back\":" + std::to_string(memory.held_back) + "}";
}

std::string landing_json() {
  fw_slot_stats slots{};
  slots.struct_size = sizeof(slots);
  fw_slots(&slots);
  return "{\"slots\":" + std::to_string(slots.slots) + ",\"held\":" + std::to_string(slots.held) +
         ",\"bytes\":" + std::to_string(slots.bytes) + "}";
}

Gauges gauges() {
  Runtime* const runtime = Runtime::current();
  Gauges now;
  if (runtime != nullptr) now.waiting_tensors = runtime->arrivals().waiting_tensors();
  now.held_views = held_views();
  now.fetches = remote_reads();
  now.device_copies = static_cast<std::uint64_t>(device_copies());
  if (ArenaAllocator::traced()) {
    now.tracing = AllocationSites::of_process().tracing() ? 1 : 0;
    now.sent_sites = AllocationSites::of_process().sent_sites();
  }
  now.held_copies = held_copies();
  now.held_copy_bytes = held_copy_bytes();
  return now;
}

std::string stats_json() {
  Runtime* const runtime = Runtime::current();
  std::string text = "{" + counters_json(gauges());
  text += ",\"landing\":" + landing_json();
  text += ",\"arena\":" + memory_json();
  text += ",\"links\":";
  text += runtime == nullptr ? "[]" : runtime->peers().links_json();
  return text + "}";
}

// Empty before the first server.
std::string device_metrics() {
  Runtime* const runtime = Runtime::current();
  if (runtime == nullptr) return {};
  std::string text;
  std::uint64_t length = fw_device_metrics(runtime->peers().device(), nullptr, 0);
  while (length >= text.size()) {  // it may grow between the calls
    text.resize(length + 1024);
    length = fw_device_metrics(runtime->peers().device(), text.data(), text.size());
  }
  text.resize(length);
  return text;
}

std::string describe_json() {
  return "{\"farwrite_version\":" + json_quoted(fw_version()) +
         ",\"allocator\":" + json_quoted(ArenaAllocator::policy()) +
         ",\"reason\":" + json_quoted(ArenaAllocator::reason()) +
         ",\"error\":" + json_quoted(std::string(loaded.message())) +
         ",\"error_code\":" + json_quoted(absl::StatusCodeToString(loaded.code())) + "}";
}

}  // namespace
}  // namespace farwrite::plugin

// Both: JSON, valid until this thread's next call.
extern "C" FW_API const char* farwrite_tf_stats_json(void) {
  static thread_local std::string text;
  text = farwrite::plugin::stats_json();
  return text.c_str();
}

extern "C" FW_API const char* farwrite_tf_describe_json(void) {
  static thread_local std::string text;
  text = farwrite::plugin::describe_json();
  return text.c_str();
}

// Prometheus text of the plug-in's device, valid until this thread's next call.
extern "C" FW_API const char* farwrite_tf_device_metrics(void) {
  static thread_local std::string text;
  text = farwrite::plugin::device_metrics();
  return text.c_str();
}

// The table of edges as JSON, valid until this thread's next call.
extern "C" FW_API const char* farwrite_tf_edges_json(void) {
  static thread_local std::string text;
  text = farwrite::plugin::edges_json();
  return text.c_str();
}

namespace {

// Bytes, or the reason why not, valid until this thread's next call.
int handed_out(absl::StatusOr<std::string> result, const char** data, std::uint64_t* size) {
  static thread_local std::string text;
  text = result.ok() ? *std::move(result) : std::string(result.status().message());
  *data = text.data();
  *size = text.size();
  return result.ok() ? 0 : 1;
}

}  // namespace

// Both take a GraphDef; see graph_analysis.h. They return 0, or 1 with the reason in `data`.
extern "C" FW_API int farwrite_tf_lower_graph(const char* graph, std::uint64_t length,
                                              const char** data, std::uint64_t* size) {
  return handed_out(farwrite::plugin::lower_graph({graph, length}), data, size);
}

extern "C" FW_API int farwrite_tf_analyze_graph(const char* graph, std::uint64_t length,
                                                const char** data, std::uint64_t* size) {
  return handed_out(farwrite::plugin::analyze_graph({graph, length}), data, size);
}

extern "C" FW_API void farwrite_tf_reset_stats(void) { farwrite::plugin::reset_stats(); }
