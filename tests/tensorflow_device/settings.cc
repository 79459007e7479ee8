#include "settings.h"

#include <cstdlib>

#include "tensorflow/core/platform/logging.h"

namespace fartest {
namespace {

template <typename Number>
Number number_or(const char* name, Number otherwise) {
  const char* const text = std::getenv(name);
  if (text == nullptr) return otherwise;
  char* end = nullptr;
  const unsigned long long value = std::strtoull(text, &end, 10);
  if (end == text || *end != '\0') {
    LOG(FATAL) << "FARTEST: " << name << "=" << text << " is not a whole number";
  }
  return static_cast<Number>(value);
}

Settings read() {
  Settings read;
  read.devices = number_or("FARTEST_DEVICES", read.devices);
  read.memory_bytes = number_or("FARTEST_MEMORY_BYTES", read.memory_bytes);
  read.delay = std::chrono::microseconds(number_or("FARTEST_DELAY_US", read.delay.count()));
  read.piece_bytes = number_or("FARTEST_PIECE_BYTES", read.piece_bytes);
  read.seed = number_or("FARTEST_SEED", read.seed);
  return read;
}

}  // namespace

const Settings& settings() {
  static const Settings settings = read();
  return settings;
}

}  // namespace fartest
