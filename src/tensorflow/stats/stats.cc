#include "stats/stats.h"

#include <cstdio>

namespace farwrite::plugin {

Stats& stats() {
  static Stats* const only = new Stats;  // outlives every thread
  return *only;
}

void reset_stats() {
#define FARWRITE_PLUGIN_RESET(name, help) stats().name.store(0, std::memory_order_relaxed);
  FARWRITE_PLUGIN_COUNTERS(FARWRITE_PLUGIN_RESET)
#undef FARWRITE_PLUGIN_RESET
}

std::string counters_json(const Gauges& gauges) {
  std::string text;
  const auto add = [&](const char* name, std::uint64_t value) {
    text += (text.empty() ? "\"" : ",\"") + std::string(name) + "\":" + std::to_string(value);
  };
#define FARWRITE_PLUGIN_PRINT(name, help) add(#name, stats().name.load(std::memory_order_relaxed));
  FARWRITE_PLUGIN_COUNTERS(FARWRITE_PLUGIN_PRINT)
#undef FARWRITE_PLUGIN_PRINT
#define FARWRITE_PLUGIN_PRINT(name, help) add(#name, gauges.name);
  FARWRITE_PLUGIN_GAUGES(FARWRITE_PLUGIN_PRINT)
#undef FARWRITE_PLUGIN_PRINT
  return text;
}

std::string json_quoted(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escaped[8];
      std::snprintf(escaped, sizeof(escaped), "\\u%04x", c);
      quoted += escaped;
    } else {
      quoted += c;
    }
  }
  quoted += '"';
  return quoted;
}

}  // namespace farwrite::plugin
