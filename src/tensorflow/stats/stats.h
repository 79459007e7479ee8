// Counters of the plug-in: what moved how, and why not better. Public, because copies per transfer
// are the honest evidence.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "stats/counter_table.h"

namespace farwrite::plugin {

struct Stats {
#define FARWRITE_PLUGIN_DECLARE(name, help) std::atomic<std::uint64_t> name{0};
  FARWRITE_PLUGIN_COUNTERS(FARWRITE_PLUGIN_DECLARE)
#undef FARWRITE_PLUGIN_DECLARE
};

struct Gauges {
#define FARWRITE_PLUGIN_DECLARE(name, help) std::uint64_t name = 0;
  FARWRITE_PLUGIN_GAUGES(FARWRITE_PLUGIN_DECLARE)
#undef FARWRITE_PLUGIN_DECLARE
};

Stats& stats();
void reset_stats();

inline void count(std::atomic<std::uint64_t>& counter, std::uint64_t by = 1) {
  counter.fetch_add(by, std::memory_order_relaxed);
}

// The counters and then these values: "a":1,"b":2 without the braces.
std::string counters_json(const Gauges& gauges);
std::string json_quoted(const std::string& text);

}  // namespace farwrite::plugin
