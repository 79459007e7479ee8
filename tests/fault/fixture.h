// FaultTest: what every fault test needs around it.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <thread>

#include "device/device.h"

namespace farwrite::fault {

// After this much silence a peer counts as silent in these tests.
inline constexpr std::chrono::milliseconds kDetection(300);
// How long a test waits for what must happen "within the detection time": seconds of slack for a
// loaded machine.
inline constexpr std::chrono::seconds kPatience(20);

// Small memory, short detection time.
DeviceOptions quick_options();
// Opens a device or ends the test program.
Device open_device(const DeviceOptions& options = quick_options());

// Asks until it is true; false when kPatience is over.
bool eventually(const std::function<bool()>& holds);

// What a process holds of the machine. Names in /dev/shm show no process: tools/leftovers.py looks
// at those that a whole run has left.
struct Holdings {
  std::set<std::string> descriptors;
  std::size_t threads = 0;
  std::size_t mapped_files = 0;  // memfds, and files in /dev/shm

  static Holdings now();
  // Whether there is nothing in it that `before` did not have. Less is fine: a joined thread leaves
  // /proc a moment later.
  bool within(const Holdings& before) const;
};
void PrintTo(const Holdings& holdings, std::ostream* out);

// Checks after every test that the process holds what it held before.
class FaultTest : public ::testing::Test {
 protected:
  FaultTest();  // before the members of the tests open anything
  void TearDown() override;

 private:
  Holdings before_;
};

// An error that a user can act on: the code, and a sentence that names all of `words`.
void expect_error(const Status& status, StatusCode code, const std::set<std::string>& words);

// Waits for the proof of the peer's death, and checks what a user is told and the lease counters.
void expect_dead(Channel& channel);

// Exchanges notifications with a peer in the role "echo" all the time, to see that it is not
// disturbed.
class PingPong {
 public:
  explicit PingPong(Channel channel);
  ~PingPong();
  PingPong(const PingPong&) = delete;
  PingPong& operator=(const PingPong&) = delete;

  // Waits for a hundred more rounds, and checks that none failed so far.
  void expect_undisturbed();

 private:
  void run();

  Channel channel_;
  std::atomic<bool> stopping_{false};
  std::atomic<std::uint64_t> rounds_{0};
  std::atomic<bool> failed_{false};
  std::thread thread_;
};

}  // namespace farwrite::fault
