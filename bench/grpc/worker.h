// Calls servers: a closed loop with a number of calls under way to each.
#pragma once

#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/generic_stub.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "message.h"
#include "options.h"

inline constexpr char kMethod[] = "/farwrite.bench.Payloads/Exchange";
// The longest that any call may take.
inline constexpr std::chrono::seconds kCallTime(30);

// What is wrong with the end of call `number`; "" if nothing is.
template <typename Message>
std::string problem_of(const Options& options, std::size_t bytes, std::uint8_t number,
                       const grpc::Status& status, const Message& reply) {
  if (!status.ok()) {
    return "failed with status " + std::to_string(status.error_code()) + ": " +
           status.error_message();
  }
  std::uint8_t replied = 0;
  const bool is_right = options.reply == Reply::kAcknowledge
                            ? is_empty(reply)
                            : read_payload(reply, bytes, replied) && replied == number;
  return is_right ? "" : "has a damaged reply";
}

struct Measured {
  // Calls that ended in the measured time, and that time.
  std::uint64_t calls = 0;
  double seconds = 0;
  double p50_us = 0;
  double p99_us = 0;
};

template <typename Message>
class Worker {
 public:
  explicit Worker(const Options& options);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Connects to all servers and makes one call to each. Returns "", or what failed.
  std::string connect(const std::vector<std::string>& addresses);

  // Makes calls, first for `warm_up` unmeasured. Returns "", or what failed.
  //
  // The time of a call begins when its payload is made, and ends when the whole reply is read.
  std::string measure(std::chrono::duration<double> warm_up, std::chrono::duration<double> length,
                      Measured& measured);

  // Calls made so far, with those unmeasured.
  std::uint64_t calls() const { return calls_; }
  std::size_t payload_bytes() const { return maker_.bytes(); }

 private:
  using Clock = std::chrono::steady_clock;
  struct Call;

  void start(Call& call);
  // Waits for the end of any call and checks its reply. Returns "", or what failed.
  std::string await(Call*& ended);
  // Waits for all calls under way.
  std::string settle();

  const Options options_;
  PayloadMaker maker_;
  Message reused_;
  grpc::CompletionQueue queue_;
  std::vector<std::unique_ptr<Call>> slots_;
  std::uint64_t calls_ = 0;
  std::size_t under_way_ = 0;
};
