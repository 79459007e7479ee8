#include "stats/stats.h"

#include <cstdio>

#include "farwrite/c_api.h"

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

std::string counters_json() {
  std::string text;
#define FARWRITE_PLUGIN_PRINT(name, help) \
  text += text.empty() ? "\"" : ",\"";    \
  text += #name "\":";                    \
  text += std::to_string(stats().name.load(std::memory_order_relaxed));
  FARWRITE_PLUGIN_COUNTERS(FARWRITE_PLUGIN_PRINT)
#undef FARWRITE_PLUGIN_PRINT
  return text;
}

std::string counter_help_json() {
  std::string text;
#define FARWRITE_PLUGIN_DESCRIBE(name, help) \
  text += (text.empty() ? "{\"" #name "\":" : ",\"" #name "\":") + json_quoted(help);
  FARWRITE_PLUGIN_COUNTERS(FARWRITE_PLUGIN_DESCRIBE)
#undef FARWRITE_PLUGIN_DESCRIBE
  return text + "}";
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

// The HELP line of each counter, as JSON.
extern "C" FW_API const char* farwrite_tf_counter_help_json(void) {
  static const std::string* const text = new std::string(farwrite::plugin::counter_help_json());
  return text->c_str();
}
