// What a test calls by ctypes. programs/fartest.py is the other end.
#include <cstdint>
#include <string>

#include "counters.h"
#include "faults.h"

namespace {

fartest::Direction direction_of(int to_device) {
  return to_device != 0 ? fartest::Direction::kToDevice : fartest::Direction::kToHost;
}

}  // namespace

extern "C" {

// JSON; valid until this thread's next call.
const char* fartest_counters() {
  thread_local std::string json;
  json = fartest::counters_json();
  return json.c_str();
}

// As Faults has them.
void fartest_fail(int to_device, std::uint64_t number) {
  fartest::Faults::of_process().fail(direction_of(to_device), number);
}

void fartest_hold(int to_device, std::uint64_t number) {
  fartest::Faults::of_process().hold(direction_of(to_device), number);
}

void fartest_release() { fartest::Faults::of_process().release(); }

void fartest_limit_memory(std::uint64_t bytes) {
  fartest::Faults::of_process().limit_memory(bytes);
}

}  // extern "C"
