#include "counters.h"

namespace fartest {

Counters& counters() {
  static Counters counters;
  return counters;
}

std::string counters_json() {
  std::string json;
#define FARTEST_PRINT(name)          \
  json += json.empty() ? "{" : ", "; \
  json += "\"" #name "\": ";         \
  json += std::to_string(counters().name.load());
  FARTEST_COUNTERS(FARTEST_PRINT)
  FARTEST_GAUGES(FARTEST_PRINT)
#undef FARTEST_PRINT
  return json + "}";
}

}  // namespace fartest
