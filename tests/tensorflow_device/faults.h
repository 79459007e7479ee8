// What a test has asked to go wrong, in all devices of this process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <mutex>

namespace fartest {

enum class Direction { kToHost, kToDevice };

class Faults {
 public:
  static constexpr std::uint64_t kNotHeld = 0;

  // What happens to one copy.
  struct Verdict {
    bool fails = false;
    // Not kNotHeld: the copy stops in its middle until `released` is true of this ticket.
    std::uint64_t held = kNotHeld;
  };

  static Faults& of_process();

  // The `number`-th copy from now in that direction ends with an error: 1 is the next one.
  void fail(Direction direction, std::uint64_t number);

  // The `number`-th copy from now in that direction stops in its middle, until release().
  void hold(Direction direction, std::uint64_t number);

  // All copies that are held go on, and none is held that was asked for before.
  void release();

  // Called once for each copy, in the order in which TensorFlow asks for them.
  Verdict next(Direction direction);

  bool released(std::uint64_t ticket);

  // Each device has as many bytes to allocate, and what is allocated stays.
  void limit_memory(std::size_t bytes);
  std::size_t memory_limit();

 private:
  struct Plan {
    std::uint64_t begun = 0;
    std::uint64_t fails_at = 0;
    std::uint64_t held_at = 0;
  };

  Plan& plan(Direction direction);

  std::mutex mutex_;
  Plan to_host_;
  Plan to_device_;
  std::uint64_t releases_ = 0;
  std::size_t memory_limit_ = std::numeric_limits<std::size_t>::max();
};

}  // namespace fartest
