// What the environment says about the devices of this process.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace fartest {

struct Settings {
  // FARTEST_DEVICES: how many devices a process has, if its session does not say.
  int devices = 2;
  // FARTEST_MEMORY_BYTES: of one device. Only what is used takes room.
  std::size_t memory_bytes = std::size_t{1} << 30;
  // FARTEST_DELAY_US: a computation or a copy rests up to twice as long when it begins, and a copy
  // again in its middle.
  std::chrono::microseconds delay{0};
  // FARTEST_PIECE_BYTES: a copy is made in pieces, at least two where it has two bytes.
  std::size_t piece_bytes = std::size_t{256} << 10;
  // FARTEST_SEED: of the order of what has no order.
  std::uint32_t seed = 1;
};

// Read once. Ends the process where a variable is not a whole number.
const Settings& settings();

}  // namespace fartest
