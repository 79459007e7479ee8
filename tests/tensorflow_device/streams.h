// Streams: in which order a device works.
//
// What is in one stream is done in the order in which it came. Between streams there is no order
// but what `Work::after` asks for. One thread does the work of all streams of a device, a piece at
// a time, and draws from a generator with a fixed seed which stream the next piece is from.
#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <random>
#include <vector>

namespace fartest {

class Streams {
 public:
  // Two for copies in each direction, so that a copy may overtake one that began before it.
  enum Stream : std::uint8_t { kCompute, kToHost, kToHostToo, kToDevice, kToDeviceToo, kCount };

  // What was in a stream at some time.
  struct Mark {
    Stream stream;
    std::uint64_t works;
  };

  struct Work {
    std::size_t pieces = 1;
    std::function<void(std::size_t)> piece;
    // After the last piece, on the device's thread: must be short.
    std::function<void()> finished;
    std::vector<Mark> after;
    // Before the first piece, and again in the middle.
    std::chrono::microseconds delay{0};
    // As of Faults::Verdict: held in the middle.
    std::uint64_t held = 0;
  };

  // Starts the thread. A device works until the process ends, so this is never destroyed.
  explicit Streams(std::uint32_t seed);
  ~Streams() = delete;

  void enqueue(Stream stream, Work work);
  Mark end_of(Stream stream);
  // Blocks until what the mark counts is done.
  void wait(Mark mark);
  // A number below `count` from the device's generator.
  std::size_t draw(std::size_t count);
  // None, or one or two times the delay of the settings.
  std::chrono::microseconds draw_delay();

 private:
  using Clock = std::chrono::steady_clock;

  struct Queue {
    std::deque<Work> works;
    std::uint64_t enqueued = 0;
    std::uint64_t passed = 0;
    // Of the first of the works:
    bool begun = false;
    std::size_t next_piece = 0;
    Clock::time_point not_before;
  };

  void serve();
  bool is_due(Queue& queue, Clock::time_point now, Clock::time_point* look_again);
  std::optional<Stream> choose(Clock::time_point* look_again);
  void work(Queue& queue, std::unique_lock<std::mutex>& lock);
  bool passed(Mark mark) const { return queues_[mark.stream].passed >= mark.works; }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::array<Queue, kCount> queues_;
  std::mt19937 generator_;
};

}  // namespace fartest
